// Batch-norm together with the max-pooling and ReLU that follow it, over images [batch][height][width][channels] whose
// channels are whole vectors. Forward, memory is read once for the moments and once for the rest; backward, what
// pooling left is read for the sums, and the image once.

#pragma once

#include "products.h"

namespace {

constexpr Int NEAR_PIXELS = 64;  // summed at once: few enough to stay near, and to add up without loss

template <class T>
struct Norm {
    Int batch, height, width, channels, pool_height, pool_width, relu;

    Int rows() const { return height / pool_height; }
    Int columns() const { return width / pool_width; }
    Int pixels() const { return batch * height * width; }
    Int pooled() const { return batch * rows() * columns(); }

    // Mean and variance (over all, not all but one) of every channel; blocks are merged in double precision.
    void moments(const T* x, T* mean, T* variance) const {
        std::vector<double> centre(channels, 0), spread(channels, 0);
        std::vector<T> sums(channels), squares(channels);
        for (Int done = 0; done < pixels(); done += NEAR_PIXELS, x += NEAR_PIXELS * channels) {
            Int count = std::min(NEAR_PIXELS, pixels() - done);
            for (Int c = 0; c < channels; c += lanes<T>) {
                vec<T> sum{}, square{};
                for (Int i = 0; i < count; ++i) sum += load(x + i * channels + c);
                vec<T> middle = sum / T(count);
                for (Int i = 0; i < count; ++i) {
                    vec<T> off = load(x + i * channels + c) - middle;
                    square += off * off;
                }
                store(sums.data() + c, middle), store(squares.data() + c, square);
            }
            double share = double(count) / double(done + count);
            for (Int c = 0; c < channels; ++c) {
                double off = double(sums[c]) - centre[c];
                centre[c] += off * share;
                spread[c] += double(squares[c]) + off * off * double(done) * share;
            }
        }
        for (Int c = 0; c < channels; ++c) mean[c] = T(centre[c]), variance[c] = T(spread[c] / double(pixels()));
    }

    // y = the largest of scale x + shift in every window; `chosen` says which, and `kept` is its x.
    void forward(const T* x, const T* scale, const T* shift, T* y, Number<T>* chosen, T* kept) const {
        for (Int b = 0; b < batch; ++b)
            for (Int i = 0; i < rows(); ++i)
                for (Int j = 0; j < columns(); ++j, y += channels, chosen += channels, kept += channels) {
                    const T* first = x + ((b * height + i * pool_height) * width + j * pool_width) * channels;
                    for (Int c = 0; c < channels; c += lanes<T>) {
                        vec<T> factor = load(scale + c), start = load(shift + c);
                        vec<T> source = load(first + c), best = source * factor + start;
                        mask<T> which{};
                        for (Int p = 1; p < pool_height * pool_width; ++p) {
                            vec<T> value = load(first + (p / pool_width * width + p % pool_width) * channels + c);
                            vec<T> made = value * factor + start;
                            mask<T> better = (made > best) | (made != made);  // as torch: the first wins, nan always
                            best = better ? made : best, source = better ? value : source;
                            which = better ? mask<T>{} + Number<T>(p) : which;
                        }
                        store(y + c, relu ? (best <= 0 ? vec<T>{} : best) : best);
                        store(chosen + c, which);
                        store(kept + c, source);
                    }
                }
    }

    // Sums over all windows of the gradient, and of the gradient times what `kept` is off the mean.
    void sums(const T* dy, const T* y, const T* kept, const T* mean, T* plain, T* weighted) const {
        std::vector<double> all(channels, 0), products(channels, 0);
        for (Int done = 0; done < pooled(); done += NEAR_PIXELS) {
            Int count = std::min(NEAR_PIXELS, pooled() - done);
            for (Int c = 0; c < channels; c += lanes<T>) {
                vec<T> sum{}, product{}, middle = load(mean + c);
                for (Int i = 0; i < count; ++i) {
                    Int at = (done + i) * channels + c;
                    vec<T> slope = passed(dy + at, y + at);
                    sum += slope, product += slope * (load(kept + at) - middle);
                }
                for (int lane = 0; lane < lanes<T>; ++lane)
                    all[c + lane] += double(sum[lane]), products[c + lane] += double(product[lane]);
            }
        }
        for (Int c = 0; c < channels; ++c) plain[c] = T(all[c]), weighted[c] = T(products[c]);
    }

    // dx = scale dy where a window chose it, less level + tilt x everywhere.
    void backward(const T* dy, const T* y, const Number<T>* chosen, const T* x, const T* scale, const T* level, const T* tilt,
                  T* dx) const {
        for (Int b = 0; b < batch; ++b)
            for (Int i = 0; i < height; ++i)
                for (Int j = 0; j < width; ++j, x += channels, dx += channels) {
                    bool covered = i / pool_height < rows() && j / pool_width < columns();
                    Int window = ((b * rows() + i / pool_height) * columns() + j / pool_width) * channels;
                    Number<T> place = i % pool_height * pool_width + j % pool_width;
                    for (Int c = 0; c < channels; c += lanes<T>) {
                        vec<T> slope = -(load(level + c) + load(tilt + c) * load(x + c));
                        if (covered) {
                            Int at = window + c;
                            vec<T> here = load(scale + c) * passed(dy + at, y + at);
                            slope += load(chosen + at) == place ? here : vec<T>{};
                        }
                        store(dx + c, slope);
                    }
                }
    }

  private:
    vec<T> passed(const T* dy, const T* y) const { return relu ? (load(y) <= 0 ? vec<T>{} : load(dy)) : load(dy); }
};

}  // namespace
