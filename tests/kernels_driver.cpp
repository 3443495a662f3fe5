// Runs the native kernels on random chains, every buffer exactly as large as asked for, so that the sanitizers see
// each step beyond one. The numbers themselves are checked in test_kernels.py.

#include KERNELS

#include <cstdio>
#include <cstdlib>
#include <random>

static std::mt19937 random_bits(1);

static Int between(Int low, Int high) { return low + Int(random_bits() % uint64_t(high - low + 1)); }

template <class T>
static std::vector<T> numbers(Int count) {
    std::vector<T> out(count);
    for (T& value : out) value = T(between(-1000, 1000)) / 500;
    return out;
}

static std::vector<Layer> chain() {
    std::vector<Layer> out;
    Int channels = between(0, 1) ? between(1, 9) : 16, height = between(1, 12), width = between(1, 12);
    for (Int n = between(0, 3); n > 0; --n) {
        bool large = between(0, 1);
        Layer l{1, channels, height, width, between(0, 1) ? between(1, 20) : 16, large ? 5 : between(1, 5),
                large ? 5 : between(1, 5), between(0, 2), between(0, 2), between(1, 3), between(1, 3), between(0, 1)};
        height = (l.in_height + 2 * l.pad_height - l.kernel_height + 1) / l.pool_height;
        width = (l.in_width + 2 * l.pad_width - l.kernel_width + 1) / l.pool_width;
        if (height < 1 || width < 1) {
            height = l.in_height, width = l.in_width;
            continue;
        }
        out.push_back(l);
        channels = l.out_channels;
    }
    Int features = channels * height * width;
    for (Int n = between(1, 3); n > 0; --n) {
        out.push_back({0, features, 1, 1, between(0, 9) ? between(1, 30) : between(2000, 2100), 1, 1, 0, 0, 1, 1, between(0, 1)});
        features = out.back().out_channels;
    }
    return out;
}

template <class T>
static void once() {
    std::vector<Layer> layers = chain();
    Int count = layers.size(), batch = between(1, 20), tap = count - 1;
    while (tap > 0 && !layers[tap - 1].convolution && between(0, 1)) --tap;
    std::vector<std::vector<T>> params, grads;
    std::vector<const T*> given;
    std::vector<T*> wanted;
    for (const Layer& l : layers) {
        params.push_back(numbers<T>(l.out_channels * l.in_channels * l.kernel_height * l.kernel_width));
        params.push_back(numbers<T>(l.out_channels));
    }
    for (const auto& p : params) grads.push_back(std::vector<T>(p.size()));
    for (Int i = 0; i < 2 * count; ++i) {
        given.push_back(i % 2 && between(0, 3) == 0 ? nullptr : params[i].data());
        wanted.push_back(given[i] && between(0, 3) ? grads[i].data() : nullptr);
    }
    const Layer& first = layers[0];
    std::vector<T> x = numbers<T>(batch * first.in_channels * first.in_height * first.in_width);
    std::vector<T> features(batch * layers[tap].in_channels), out(batch * layers[count - 1].out_channels);
    Int size = Arena<T>(layers.data(), count, batch, nullptr).bytes;
    void* memory = std::aligned_alloc(64, up(size, 64));
    forward<T>(layers.data(), count, batch, given.data(), x.data(), memory, tap, features.data(), out.data());
    backward<T>(layers.data(), count, batch, given.data(), x.data(), memory, tap, features.data(), out.data(),
                wanted.data());
    std::free(memory);
}

template <class T>
static void three_by_three() {
    Int batch = between(1, 9), in = 16 * between(1, 3), out = 16 * between(1, 3), pad = between(0, 2);
    Int height = between(3, 9), width = between(3, 9), rows = height + 2 * pad - 2, columns = width + 2 * pad - 2;
    std::vector<T> x = numbers<T>(batch * height * width * in), weight = numbers<T>(out * in * 9);
    std::vector<T> bias = numbers<T>(out), y(batch * rows * columns * out), dx(x.size()), d_weight(weight.size());
    Winograd<T>(batch, height, width, in, out, pad).forward(x.data(), weight.data(), false, bias.data(), y.data());
    Winograd<T>(batch, rows, columns, out, in, 2 - pad).forward(y.data(), weight.data(), true, nullptr, dx.data());
    Winograd<T>(batch, height, width, in, out, pad).filter_gradient(x.data(), y.data(), d_weight.data());
}

template <class T>
static void norm() {
    Norm<T> n{between(1, 9), between(3, 9), between(3, 9), 16 * between(1, 3), between(1, 3), between(1, 3), between(0, 1)};
    Int values = n.pixels() * n.channels, left = n.pooled() * n.channels;
    std::vector<T> x = numbers<T>(values), scale = numbers<T>(n.channels), mean(n.channels), variance(n.channels);
    std::vector<T> y(left), kept(left), dy = numbers<T>(left), dx(values), plain(n.channels), weighted(n.channels);
    std::vector<Number<T>> chosen(left);
    n.moments(x.data(), mean.data(), variance.data());
    n.forward(x.data(), scale.data(), mean.data(), y.data(), chosen.data(), kept.data());
    n.sums(dy.data(), y.data(), kept.data(), mean.data(), plain.data(), weighted.data());
    n.backward(dy.data(), y.data(), chosen.data(), x.data(), scale.data(), plain.data(), weighted.data(), dx.data());
}

int main(int, char** arguments) {
    for (int i = std::atoi(arguments[1]); i > 0; --i) {
        once<float>();
        once<double>();
        three_by_three<float>();
        three_by_three<double>();
        norm<float>();
        norm<double>();
    }
    std::puts("done");
}
