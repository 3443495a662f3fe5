// Forward and backward passes of a chain of layers: linear, or convolution with max-pooling, each with or
// without ReLU. Everything is written once with the compiler's vector types; the flags with which the file is
// compiled decide how wide a vector is (VECTOR_BYTES), so no code here is for one processor only.
//
// Four ideas make it fast.
// 1. Batches of small networks are small: weights are broadcast straight from torch's layout, and only the
//    activations are rearranged.
// 2. Images are kept as [height][width][channels] together with their padding, so that a row of a filter meets
//    one run of memory, in the forward pass and in both backward passes.
// 3. After pooling and ReLU most gradients of a convolution are zero. The others are put into lists, by output
//    channel (for the filters) and by pixel (for the image), and only these are worked on.
// 4. Two rows of outputs with filters of five by five are made at once with fewer multiplications (points.h).

#include <cmath>

#include "norm.h"
#include "points.h"
#include "products.h"
#include "winograd.h"

// The Python side fills in the same fields in the same order.
struct Layer {
    int64_t convolution;          // else linear
    int64_t in_channels;          // or the features of a linear layer
    int64_t in_height, in_width;  // 1 for a linear layer
    int64_t out_channels;
    int64_t kernel_height, kernel_width, pad_height, pad_width;
    int64_t pool_height, pool_width;  // 1 without pooling
    int64_t relu;
};

namespace {

// --------------------------------------------------------------------------------------------------- linear

// In the forward pass the batch lies along the vectors: activations are transposed and packed as
// [panel of examples][features][wide], rows beyond the batch holding anything.
template <class T>
void pack_batch(const T* x, Int batch, Int features, T* packed) {
    for (Int first = 0, wide; first < batch; first += wide, packed += wide * features) {
        wide = panel<T>(batch - first);
        transpose(x + first * features, std::min(wide, batch - first), features, features, packed, wide);
    }
}
template <class T>
void unpack_batch(const T* packed, Int batch, Int features, T* x) {
    for (Int first = 0, wide; first < batch; first += wide, packed += wide * features) {
        wide = panel<T>(batch - first);
        transpose(packed, features, std::min(wide, batch - first), wide, x + first * features, features);
    }
}

template <class T>
void linear_forward(const Layer& l, Int batch, const T* packed, const T* weight, const T* bias, T* out) {
    Int inputs = l.in_channels, outputs = l.out_channels;
    for (Int row = 0, i = 0, tall; row < outputs; row += tall, ++i) {
        tall = portion(outputs, TILE_ROWS, i);
        for (Int first = 0, wide; first < batch; first += wide) {
            wide = panel<T>(batch - first);
            T* target = out + first * outputs + row * wide;
            pick_tile<T>(tall, wide / lanes<T>)(1, inputs, weight + row * inputs, 0, inputs, 1, packed + first * inputs,
                                                nullptr, 0, target, wide);
            for (Int r = 0; r < tall; ++r)
                for (Int j = r * wide; j < (r + 1) * wide; j += lanes<T>) {
                    vec<T> value = load(target + j) + (bias ? bias[row + r] : T(0));
                    store(target + j, l.relu ? (value <= 0 ? vec<T>{} : value) : value);
                }
        }
    }
}

// ReLU stops gradients where its output was zero. Works in whole vectors, as far as one beyond the end.
template <class T>
void stop(Int count, const T* output, T* gradient) {
    for (Int i = 0; i < count; i += lanes<T>) {
        vec<T> y = load(output + i), dy = load(gradient + i);
        store(gradient + i, y <= 0 ? vec<T>{} : dy);
    }
}

template <class T>
void linear_backward(const Layer& l, Int batch, const T* x, const T* weight, const T* dy, T* d_weight, T* d_bias, T* dx,
                     T* packed, T* turned) {
    Int inputs = l.in_channels, outputs = l.out_channels;
    if (d_weight) {
        transpose(dy, batch, outputs, outputs, turned, batch);
        product<T>(outputs, inputs, batch, batch, turned, x, d_weight, packed);
    }
    if (dx) product<T>(batch, inputs, outputs, FEW, dy, weight, dx, packed);
    if (d_bias) {
        std::fill(d_bias, d_bias + outputs, T(0));
        for (Int b = 0; b < batch; ++b)
            for (Int n = 0; n < outputs; ++n) d_bias[n] += dy[b * outputs + n];
    }
}

// ---------------------------------------------------------------------------------------------- convolution

// Sizes of a convolution that follow from its layer. A "run" is one row of a filter: kernel width x channels.
template <class T>
struct Shape {
    Int channels, out, out_padded, kernel, run, run_padded, row, image, height, width, pools, pixels;
    explicit Shape(const Layer& l) {
        channels = l.in_channels, out = l.out_channels, out_padded = up(out, lanes<T>);
        kernel = l.kernel_height, run = l.kernel_width * channels, run_padded = up(run, lanes<T>);
        row = (l.in_width + 2 * l.pad_width) * channels, image = (l.in_height + 2 * l.pad_height) * row;
        height = (l.in_height + 2 * l.pad_height - kernel + 1) / l.pool_height;
        width = (l.in_width + 2 * l.pad_width - l.kernel_width + 1) / l.pool_width;
        pools = l.pool_height * l.pool_width, pixels = height * width;
    }
};

// Copies images [channels][height][width] into the inside of padded images [height][width][channels].
template <class T>
void to_padded(const Layer& l, Int batch, const T* x, T* padded) {
    Shape<T> s(l);
    for (Int b = 0; b < batch; ++b, padded += s.image) {
        std::fill(padded, padded + s.image, T(0));
        for (Int c = 0; c < s.channels; ++c)
            for (Int i = 0; i < l.in_height; ++i) {
                T* target = padded + (i + l.pad_height) * s.row + l.pad_width * s.channels + c;
                for (Int j = 0; j < l.in_width; ++j) target[j * s.channels] = *x++;
            }
    }
}

// Filters [out][channels][kernel height][kernel width] as panels of output channels: [panel][run by run][width].
template <class T>
void pack_filters(const Layer& l, const T* weight, T* out) {
    Shape<T> s(l);
    Int area = l.kernel_height * l.kernel_width;
    for (Int first = 0; first < s.out; first += panel<T>(s.out - first)) {
        Int wide = panel<T>(s.out - first);
        for (Int k = 0; k < area; ++k)
            for (Int c = 0; c < s.channels; ++c)
                for (Int j = 0; j < wide; ++j)
                    *out++ = first + j < s.out ? weight[((first + j) * s.channels + c) * area + k] : 0;
    }
}

// Some rows of the convolution of one image: out [rows][columns][out_padded].
template <class T>
void convolve(const Shape<T>& s, const T* image, Int rows, Int columns, const T* filters, const T* bias, T* out) {
    for (Int first = 0, wide; first < s.out; first += wide) {
        wide = panel<T>(s.out - first);
        for (Int row = 0; row < rows; ++row)
            for (Int column = 0, i = 0, tall; column < columns; column += tall, ++i) {
                tall = portion(columns, TILE_ROWS, i);
                Tile<T> fit = pick_tile<T>(tall, wide / lanes<T>);
                fit(s.kernel, s.run, image + row * s.row + column * s.channels, s.row, s.channels, 1, filters,
                    bias + first, 0, out + (row * columns + column) * s.out_padded + first, s.out_padded);
            }
        filters += wide * s.kernel * s.run;
    }
}

// The same for two rows with filters of five by five, in tiles of two by two: channels must be whole vectors, columns even.
template <class T>
struct Pairs {
    static constexpr int TAPS = 5, OUTS = SIDE - TAPS + 1;
    Int channels, out, row, columns, tiles, to_filter, to_input, to_output;

    Pairs(const Shape<T>& s, Int columns)
        : channels(s.channels), out(s.out_padded), row(s.row), columns(columns), tiles(columns / OUTS),
          to_filter(apart<T>(channels * out)), to_input(apart<T>(tiles * channels)), to_output(apart<T>(tiles * out)) {}

    static bool fit(const Layer& l, Int columns) {
        return l.kernel_height == TAPS && l.kernel_width == TAPS && l.pool_height == OUTS && columns % OUTS == 0 &&
               l.in_channels % lanes<T> == 0;
    }
    Int filters() const { return PLACES * to_filter; }
    Int room() const { return PLACES * (to_input + to_output); }

    void convolve(const T* image, const T* filters, const T* bias, T* made, T* inputs) const {
        T* outputs = inputs + PLACES * to_input;
        for (Int t = 0; t < tiles; ++t)
            for (Int c = 0; c < channels; c += lanes<T>) take(image + t * OUTS * channels + c, inputs + t * channels + c);
        for (Int k = 0; k < PLACES; ++k)
            multiply<T>(tiles, out, channels, inputs + k * to_input, channels, 1, filters + k * to_filter, channels, nullptr,
                        outputs + k * to_output);
        for (Int t = 0; t < tiles; ++t)
            for (Int c = 0; c < out; c += lanes<T>) give(outputs + t * out + c, load(bias + c), made + t * OUTS * out + c);
    }

  private:
    void take(const T* from, T* places) const {
        vec<T> d[SIDE][SIDE], values[SIDE][SIDE];
        UNROLL for (int p = 0; p < SIDE; ++p)
            UNROLL for (int q = 0; q < SIDE; ++q) d[p][q] = load(from + p * row + q * channels);
        both_ways(d, values, Points<T>::template inputs<vec<T>>);
        put<T>(values, places, to_input);
    }

    void give(const T* places, vec<T> shift, T* to) const {
        vec<T> m[SIDE][SIDE], made[OUTS][OUTS];
        get<T>(places, to_output, m);
        both_ways(m, made, Points<T>::template coefficients<OUTS, false, vec<T>>);
        UNROLL for (int p = 0; p < OUTS; ++p)
            UNROLL for (int q = 0; q < OUTS; ++q) store(to + (p * columns + q) * out, made[p][q] + shift);
    }
};

// The largest of each window of some rows [pool height][columns][out_padded], and ReLU. `chosen` says where it was: how
// far in the padded image from the window's corner, or -1 where ReLU lets no gradient pass.
template <class T>
void pool_row(const Layer& l, const Shape<T>& s, const T* rows, T* out, Number<T>* chosen) {
    Int columns = s.width * l.pool_width;
    for (Int x = 0; x < s.width; ++x)
        for (Int c = 0; c < s.out_padded; c += lanes<T>) {
            const T* window = rows + x * l.pool_width * s.out_padded + c;
            vec<T> best = load(window);
            mask<T> which{};
            for (Int i = 0; i < l.pool_height; ++i)
                for (Int j = 0; j < l.pool_width; ++j) {
                    vec<T> value = load(window + (i * columns + j) * s.out_padded);
                    mask<T> better = (value > best) | (value != value);  // as torch: the first wins, nan always
                    best = better ? value : best;
                    which = better ? mask<T>{} + Number<T>(i * s.row + j * s.channels) : which;
                }
            if (l.relu) {
                mask<T> dead = best <= 0;
                best = dead ? vec<T>{} : best;
                which = dead ? mask<T>{} - 1 : which;
            }
            store(out + x * s.out_padded + c, best);
            store(chosen + x * s.out_padded + c, which);
        }
}

// sums [R runs][V vectors] += for each entry of a list: its value x what lies at its place.
template <class T, int R, int V>
void gather(Int count, const int32_t* places, const T* values, const T* from, Int from_run, T* sums, Int sums_run) {
    vec<T> sum[R][V];
    UNROLL for (int r = 0; r < R; ++r)
        UNROLL for (int v = 0; v < V; ++v) sum[r][v] = load(sums + r * sums_run + v * lanes<T>);
    for (Int e = 0; e < count; ++e) {
        const T* here = from + places[e];
        T value = values[e];
        UNROLL for (int r = 0; r < R; ++r)
            UNROLL for (int v = 0; v < V; ++v) sum[r][v] += value * load(here + r * from_run + v * lanes<T>);
    }
    UNROLL for (int r = 0; r < R; ++r)
        UNROLL for (int v = 0; v < V; ++v) store(sums + r * sums_run + v * lanes<T>, sum[r][v]);
}

template <class T>
using Gather = void (*)(Int, const int32_t*, const T*, const T*, Int, T*, Int);

template <class T, int R, int V>
constexpr Gather<T> gather_or_null() {
    if constexpr (R * V <= SUMS)
        return gather<T, R, V>;
    else
        return nullptr;
}
template <class T, int R, int... V>
Gather<T> pick_gather(Int vectors, std::integer_sequence<int, V...>) {
    static const Gather<T> all[] = {gather_or_null<T, R, V + 1>()...};
    return all[vectors - 1];
}
template <class T>
Gather<T> pick_gather(Int runs, Int vectors) {
    auto sizes = std::make_integer_sequence<int, SUMS>{};
    switch (runs) {
        case 1: return pick_gather<T, 1>(vectors, sizes);
        case 2: return pick_gather<T, 2>(vectors, sizes);
        case 3: return pick_gather<T, 3>(vectors, sizes);
        case 4: return pick_gather<T, 4>(vectors, sizes);
        default: return pick_gather<T, 5>(vectors, sizes);
    }
}

// Gradients that are not zero, in lists: `count` values each, the places that belong to them, and where their sum goes.
template <class T>
struct Lists {
    Int number, capacity;
    T* value;
    int32_t *place, *count, *origin;

    static Int room(Int most) { return most + lanes<T>; }  // beyond the last one that counts
    static Int bytes(Int number, Int most) { return up(number * (8 + room(most) * Int(4 + sizeof(T))), 64); }
    Lists(Int n, Int most, uint8_t* memory) : number(n), capacity(room(most)) {
        value = reinterpret_cast<T*>(memory);
        place = reinterpret_cast<int32_t*>(value + n * capacity);
        count = place + n * capacity;
        origin = count + n;
    }

    // Ends a list after `end` entries.
    void close(Int list, Int end, Int sum) {
        std::fill_n(value + list * capacity + end, lanes<T>, T(0));
        count[list] = end, origin[list] = sum;
    }

    T total(Int list) const {
        vec<T> sum{};
        for (Int i = 0; i < count[list]; i += lanes<T>) sum += load(value + list * capacity + i);
        T out = 0;
        for (int i = 0; i < lanes<T>; ++i) out += sum[i];
        return out;
    }
};

// Gathers every list into its own sums [runs][width], in blocks that fit into registers, and block by block, so that
// what all lists read stays in the cache.
template <class T>
void gather_all(const Lists<T>& lists, Int runs, Int width, const T* from, Int from_run, T* sums, Int sums_run) {
    Int vectors = width / lanes<T>;
    for (Int v = 0, i = 0, wide; v < vectors; v += wide, ++i) {
        wide = portion(vectors, SUMS, i);
        Int most = std::min<Int>(MOST_RUNS, SUMS / wide);
        for (Int r = 0, j = 0, tall; r < runs; r += tall, ++j) {
            tall = portion(runs, most, j);
            Gather<T> work = pick_gather<T>(tall, wide);
            const T* start = from + r * from_run + v * lanes<T>;
            T* target = sums + r * sums_run + v * lanes<T>;
            for (Int n = 0; n < lists.number; ++n)
                work(lists.count[n], lists.place + n * lists.capacity, lists.value + n * lists.capacity, start, from_run,
                     target + lists.origin[n], sums_run);
        }
    }
}

// Where the output of a convolution lies: inside the next padded image, or (flat) as a row in torch's order.
template <class T>
struct Place {
    T* start;
    Int image, row, pixel, channel;
};

template <class T>
struct Convolution {
    const Layer& l;
    Shape<T> s;
    Int columns;  // of the convolution that pooling looks at
    Pairs<T> pairs;
    bool in_pairs;  // rows are made two at a time, with fewer multiplications
    // The filters with zeros on both sides: whichever pixel in a row of a window was chosen, its filter can be laid
    // over all that the row sees, `seen` numbers in each run.
    Int seen, framed_run, framed;

    explicit Convolution(const Layer& layer)
        : l(layer), s(layer), columns(s.width * layer.pool_width), pairs(s, columns), in_pairs(Pairs<T>::fit(layer, columns)) {
        seen = up((l.kernel_width + l.pool_width - 1) * s.channels, lanes<T>);
        framed_run = seen + (l.pool_width - 1) * s.channels;
        framed = s.kernel * framed_run;
    }

    Int filters() const {
        Int forward = in_pairs ? pairs.filters() : s.kernel * s.run * s.out_padded;
        return up(std::max(forward, s.out * framed + lanes<T>), lanes<T>);
    }
    Int sums() const { return s.out * s.kernel * s.run_padded; }
    Int scratch_bytes() const {
        Int forward = s.out_padded * (1 + l.pool_height * columns + s.width) + (in_pairs ? pairs.room() : 0);
        Int lists = Lists<T>::bytes(s.out, s.pixels) + Lists<T>::bytes(s.pixels * l.pool_height, s.out);
        return Int(sizeof(T)) * (filters() + up(std::max(forward, sums()), lanes<T>)) + lists;
    }

    void forward(Int batch, const T* images, const T* weight, const T* bias, Place<T> to, Number<T>* chosen, T* scratch) {
        T* shifts = scratch + filters();
        T* rows = shifts + s.out_padded;
        T* pooled = rows + l.pool_height * columns * s.out_padded;
        T* places = pooled + s.width * s.out_padded;
        if (in_pairs)
            pack_points<Pairs<T>::TAPS>(weight, s.channels, s.out, false, pairs.to_filter, scratch);
        else
            pack_filters(l, weight, scratch);
        for (Int c = 0; c < s.out_padded; ++c) shifts[c] = bias && c < s.out ? bias[c] : 0;
        for (Int b = 0; b < batch; ++b)
            for (Int y = 0; y < s.height; ++y) {
                const T* top = images + b * s.image + y * l.pool_height * s.row;
                if (in_pairs)
                    pairs.convolve(top, scratch, shifts, rows, places);
                else
                    convolve(s, top, l.pool_height, columns, scratch, shifts, rows);
                pool_row(l, s, rows, pooled, chosen + (b * s.height + y) * s.width * s.out_padded);
                T* target = to.start + b * to.image + y * to.row;
                if (to.channel == 1)
                    for (Int x = 0; x < s.width; ++x) std::copy_n(pooled + x * s.out_padded, s.out, target + x * to.pixel);
                else
                    transpose(pooled, s.width, s.out, s.out_padded, target, to.channel);
            }
    }

    void frame_filters(const T* weight, T* out) const {
        std::fill(out, out + s.out * framed, T(0));
        for (Int o = 0; o < s.out; ++o)
            for (Int c = 0; c < s.channels; ++c)
                for (Int i = 0; i < s.kernel; ++i)
                    for (Int j = 0; j < l.kernel_width; ++j)
                        out[o * framed + i * framed_run + (j + l.pool_width - 1) * s.channels + c] = *weight++;
    }

    // In both kinds of lists every entry is written, and the next one overwrites it unless it counts: there is no
    // branch to guess.

    // By output channel: where in the image the filter lay.
    void by_channel(const T* dy, const Place<T>& at, const Number<T>* chosen, Lists<T>& lists) const {
        int32_t down = l.pool_height * s.row, right = l.pool_width * s.channels;
        for (Int c = 0; c < s.out; ++c) {
            int32_t* places = lists.place + c * lists.capacity;
            T* values = lists.value + c * lists.capacity;
            const Number<T>* offset = chosen + c;
            Int end = 0;
            for (Int y = 0; y < s.height; ++y) {
                const T* from = dy + y * at.row + c * at.channel;
                int32_t corner = y * down;
                for (Int x = 0; x < s.width; ++x, offset += s.out_padded, from += at.pixel, corner += right) {
                    places[end] = corner + int32_t(*offset);
                    values[end] = *from;
                    end += *offset >= 0;
                }
            }
            lists.close(c, end, c * s.kernel * s.run_padded);
        }
    }

    // By row of a window: where among the framed filters that begins which lies over what the row sees.
    void by_window(const T* dy, const Place<T>& at, const Number<T>* chosen, Lists<T>& lists) const {
        uint32_t width = l.pool_width * s.channels;
        for (Int i = 0, list = 0; i < s.pixels; ++i, chosen += s.out_padded) {
            Int y = i / s.width, x = i % s.width;
            for (Int row = 0; row < l.pool_height; ++row, ++list) {
                int32_t* places = lists.place + list * lists.capacity;
                T* values = lists.value + list * lists.capacity;
                const T* from = dy + y * at.row + x * at.pixel;
                int32_t start = width - s.channels, before = row * s.row;
                Int end = 0;
                for (Int c = 0; c < s.out; ++c, from += at.channel, start += framed) {
                    int32_t offset = int32_t(chosen[c]) - before;
                    places[end] = start - offset;
                    values[end] = *from;
                    end += uint32_t(offset) < width;
                }
                lists.close(list, end, (y * l.pool_height + row) * s.row + x * width);
            }
        }
    }

    void backward(Int batch, const T* images, const T* weight, Place<T> from, const Number<T>* chosen, T* d_weight,
                  T* d_bias, T* dx, T* scratch) {
        T* d_filters = scratch + filters();
        uint8_t* memory = reinterpret_cast<uint8_t*>(d_filters + up(sums(), lanes<T>));
        Lists<T> channels(s.out, s.pixels, memory);
        Lists<T> windows(s.pixels * l.pool_height, s.out, memory + Lists<T>::bytes(s.out, s.pixels));
        std::fill(d_filters, d_filters + sums(), T(0));
        if (d_bias) std::fill(d_bias, d_bias + s.out, T(0));
        if (dx) frame_filters(weight, scratch);
        if (dx) std::fill(dx, dx + batch * s.image, T(0));
        for (Int b = 0; b < batch; ++b, chosen += s.pixels * s.out_padded) {
            const T* dy = from.start + b * from.image;
            by_channel(dy, from, chosen, channels);
            if (d_weight)
                gather_all(channels, s.kernel, s.run_padded, images + b * s.image, s.row, d_filters, s.run_padded);
            for (Int c = 0; d_bias && c < s.out; ++c) d_bias[c] += channels.total(c);
            if (!dx) continue;
            by_window(dy, from, chosen, windows);
            gather_all(windows, s.kernel, seen, scratch, framed_run, dx + b * s.image, s.row);
        }
        for (Int o = 0; d_weight && o < s.out; ++o)
            for (Int c = 0; c < s.channels; ++c)
                for (Int i = 0; i < s.kernel; ++i)
                    for (Int j = 0; j < l.kernel_width; ++j)
                        *d_weight++ = d_filters[(o * s.kernel + i) * s.run_padded + j * s.channels + c];
    }
};

// --------------------------------------------------------------------------------------------------- the chain

// The memory of one pass: what each layer took in, what came out, which inputs pooling chose, gradients, scratch.
template <class T>
struct Arena {
    const Layer* layers;
    Int count, batch;
    std::vector<T*> input, gradient;  // of layer 0 .. count (the last is the output)
    std::vector<Number<T>*> chosen;
    T* scratch;
    T* packed[2];  // activations as linear layers hand them on in the forward pass
    Int bytes;

    Arena(const Layer* all, Int n, Int size, void* memory) : layers(all), count(n), batch(size), bytes(0) {
        uint8_t* start = static_cast<uint8_t*>(memory);
        auto take = [&](Int wanted) {
            uint8_t* here = start + bytes;
            bytes += up(wanted + VECTOR_BYTES, 64);  // a vector may reach beyond the last number
            return here;
        };
        Int most = 0, widest = 0;
        for (Int i = 0; i <= n; ++i) {
            Int values = batch * (i == n ? width(n - 1) : layers[i].convolution ? Shape<T>(layers[i]).image : layers[i].in_channels);
            input.push_back(reinterpret_cast<T*>(take(values * sizeof(T))));
            gradient.push_back(reinterpret_cast<T*>(take(values * sizeof(T))));
            if (i == n) break;
            const Layer& l = layers[i];
            Shape<T> s(l);
            chosen.push_back(reinterpret_cast<Number<T>*>(take(l.convolution ? batch * s.pixels * s.out_padded * sizeof(T) : 0)));
            Int linear = Int(sizeof(T)) * 2 * lanes<T> * std::max(NEAR, batch);
            most = std::max(most, l.convolution ? Convolution<T>(l).scratch_bytes() : linear);
            if (!l.convolution) widest = std::max({widest, l.in_channels, l.out_channels});
        }
        scratch = reinterpret_cast<T*>(take(most));
        for (T*& part : packed) part = reinterpret_cast<T*>(take(up(batch, lanes<T>) * widest * sizeof(T)));
    }

    Int width(Int i) const {
        return layers[i].convolution ? Shape<T>(layers[i]).pixels * layers[i].out_channels : layers[i].out_channels;
    }

    // Where the output of convolution i lies in `where[i + 1]`.
    Place<T> place(Int i, const std::vector<T*>& where) const {
        Shape<T> s(layers[i]);
        if (i + 1 == count || !layers[i + 1].convolution)
            return {where[i + 1], s.pixels * s.out, s.width, 1, s.pixels};
        const Layer& next = layers[i + 1];
        Shape<T> n(next);
        return {where[i + 1] + next.pad_height * n.row + next.pad_width * n.channels, n.image, n.row, n.channels, 1};
    }
};

template <class T>
void forward(const Layer* layers, Int count, Int batch, const T* const* params, const T* x, void* memory, Int tap,
             T* features, T* out) {
    Arena<T> arena(layers, count, batch, memory);
    for (Int i = 0; i < count; ++i) {
        const Layer& l = layers[i];
        const T *weight = params[2 * i], *bias = params[2 * i + 1];
        if (l.convolution) {
            if (i == 0) to_padded(l, batch, x, arena.input[0]);
            if (i + 1 < count && layers[i + 1].convolution)
                std::memset(arena.input[i + 1], 0, batch * Shape<T>(layers[i + 1]).image * sizeof(T));
            Convolution<T>(l).forward(batch, arena.input[i], weight, bias, arena.place(i, arena.input), arena.chosen[i],
                                      arena.scratch);
        } else {
            if (i == 0 || layers[i - 1].convolution) pack_batch(i ? arena.input[i] : x, batch, l.in_channels, arena.packed[0]);
            linear_forward(l, batch, arena.packed[0], weight, bias, arena.packed[1]);
            unpack_batch(arena.packed[1], batch, l.out_channels, arena.input[i + 1]);
            std::swap(arena.packed[0], arena.packed[1]);
        }
    }
    if (features) std::memcpy(features, tap ? arena.input[tap] : x, batch * layers[tap].in_channels * sizeof(T));
    std::memcpy(out, arena.input[count], batch * arena.width(count - 1) * sizeof(T));
}

template <class T>
void backward(const Layer* layers, Int count, Int batch, const T* const* params, const T* x, void* memory, Int tap,
              const T* d_features, const T* d_out, T* const* grads) {
    Arena<T> arena(layers, count, batch, memory);
    Int lowest = 0;
    while (lowest < count && !grads[2 * lowest] && !grads[2 * lowest + 1]) ++lowest;
    Int width = arena.width(count - 1);
    if (d_out)
        std::memcpy(arena.gradient[count], d_out, batch * width * sizeof(T));
    else
        std::fill(arena.gradient[count], arena.gradient[count] + batch * width, T(0));
    for (Int i = count - 1; i >= lowest; --i) {
        const Layer& l = layers[i];
        T* dx = i > lowest ? arena.gradient[i] : nullptr;
        T* dy = arena.gradient[i + 1];
        if (l.convolution) {
            Convolution<T>(l).backward(batch, arena.input[i], params[2 * i], arena.place(i, arena.gradient),
                                       arena.chosen[i], grads[2 * i], grads[2 * i + 1], dx, arena.scratch);
            continue;
        }
        if (l.relu) stop(batch * l.out_channels, arena.input[i + 1], dy);
        linear_backward(l, batch, i ? arena.input[i] : x, params[2 * i], dy, grads[2 * i], grads[2 * i + 1], dx,
                        arena.scratch, arena.packed[0]);
        for (Int k = 0; dx && d_features && i == tap && k < batch * l.in_channels; ++k) dx[k] += d_features[k];
    }
}

// ------------------------------------------------------------------------------------------------------ the step

// One step of SGD on one tensor, as torch defines it, in one pass over memory. What is new may lie where something old
// lay: each place is read before it is written, which the compiler is told.
template <class T>
void descend(Int count, const T* weight, const T* gradient, const T* momentum, T* new_weight, T* new_momentum, T rate,
             T keep, T decay, T factor) {
    _Pragma("GCC ivdep") for (Int i = 0; i < count; ++i) {
        T direction = factor * gradient[i] + decay * weight[i];
        if (momentum) new_momentum[i] = direction = keep * momentum[i] + direction;
        new_weight[i] = weight[i] - rate * direction;
    }
}

// The sum of all squares, near ones first.
template <class T>
double squares(Int count, const T* x) {
    constexpr Int AT_ONCE = 16 * lanes<T>;
    double total = 0;
    Int i = 0;
    for (; i + AT_ONCE <= count; i += AT_ONCE) {
        vec<T> sum{};
        UNROLL for (Int j = 0; j < AT_ONCE; j += lanes<T>) sum += load(x + i + j) * load(x + i + j);
        for (int lane = 0; lane < lanes<T>; ++lane) total += double(sum[lane]);
    }
    for (; i < count; ++i) total += double(x[i]) * double(x[i]);
    return total;
}

// What gradients are multiplied by so that all of them, as one vector, are no longer than `most`.
template <class T>
T shortening(Int tensors, const Int* counts, const T* const* gradients, double most) {
    if (std::isinf(most)) return 1;
    double square = 0;
    for (Int i = 0; i < tensors; ++i) square += squares(counts[i], gradients[i]);
    double factor = most / (std::sqrt(square) + 1e-6);
    return factor > 1 ? T(1) : T(factor);  // no number stays one
}

// -------------------------------------------------------------------------------------------------- the machine

// Multiplies and adds in as many registers as hide the latency, and does nothing else: what a benchmark calls the peak.
template <class T>
T multiply_add(Int rounds) {
    vec<T> sum[SUMS], factor = vec<T>{} + T(1 - 1e-6), shift = vec<T>{} + T(1e-6);
    UNROLL for (int i = 0; i < SUMS; ++i) sum[i] = vec<T>{} + T(i);
    for (Int round = 0; round < rounds; ++round) {
        UNROLL for (int i = 0; i < SUMS; ++i) sum[i] = sum[i] * factor + shift;
        asm volatile("" ::: "memory");  // so that rounds are not merged
    }
    UNROLL for (int i = 1; i < SUMS; ++i) sum[0] += sum[i];
    return sum[0][0];
}

}  // namespace

// Floating-point operations done in so many rounds; `out` keeps the compiler from leaving them out.
extern "C" Int multiply_add_float32(Int rounds, float* out) {
    *out = multiply_add<float>(rounds);
    return rounds * SUMS * lanes<float> * 2;
}

#define NORM_SIZES Int batch, Int height, Int width, Int channels, Int pool_height, Int pool_width, Int relu
#define NORM(T) Norm<T>{batch, height, width, channels, pool_height, pool_width, relu}

// `descend` takes weights, gradients, momenta (or null), new weights and new momenta, one list after the other.
#define EXPORT(T, name)                                                                                             \
    extern "C" Int arena_##name(const Layer* layers, Int count, Int batch) {                                        \
        return Arena<T>(layers, count, batch, nullptr).bytes;                                                       \
    }                                                                                                               \
    extern "C" void forward_##name(const Layer* layers, Int count, Int batch, const T* const* params, const T* x,    \
                                   void* arena, Int tap, T* features, T* out) {                                     \
        forward<T>(layers, count, batch, params, x, arena, tap, features, out);                                     \
    }                                                                                                               \
    extern "C" void backward_##name(const Layer* layers, Int count, Int batch, const T* const* params, const T* x,   \
                                    void* arena, Int tap, const T* d_features, const T* d_out, T* const* grads) {   \
        backward<T>(layers, count, batch, params, x, arena, tap, d_features, d_out, grads);                         \
    }                                                                                                               \
    extern "C" void descend_##name(Int tensors, const Int* counts, T* const* all, double rate, double keep,          \
                                   double decay, double clip) {                                                     \
        T factor = shortening<T>(tensors, counts, all + tensors, clip);                                             \
        for (Int i = 0; i < tensors; ++i, ++all)                                                                    \
            descend<T>(counts[i], all[0], all[tensors], all[2 * tensors], all[3 * tensors], all[4 * tensors],       \
                       T(rate), T(keep), T(decay), factor);                                                         \
    }                                                                                                               \
    extern "C" void convolve_##name(Int batch, Int height, Int width, Int in, Int out, Int pad, const T* x,          \
                                    const T* weight, Int turned, const T* bias, T* y) {                             \
        Winograd<T>(batch, height, width, in, out, pad).forward(x, weight, turned, bias, y);                        \
    }                                                                                                               \
    extern "C" void filter_gradient_##name(Int batch, Int height, Int width, Int in, Int out, Int pad, const T* x,   \
                                           const T* dy, T* d_weight) {                                              \
        Winograd<T>(batch, height, width, in, out, pad).filter_gradient(x, dy, d_weight);                           \
    }                                                                                                               \
    extern "C" void norm_moments_##name(NORM_SIZES, const T* x, T* mean, T* variance) {                             \
        NORM(T).moments(x, mean, variance);                                                                         \
    }                                                                                                               \
    extern "C" void norm_forward_##name(NORM_SIZES, const T* x, const T* scale, const T* shift, T* y,                \
                                        Number<T>* chosen, T* kept) {                                               \
        NORM(T).forward(x, scale, shift, y, chosen, kept);                                                          \
    }                                                                                                               \
    extern "C" void norm_sums_##name(NORM_SIZES, const T* dy, const T* y, const T* kept, const T* mean, T* plain,    \
                                     T* weighted) {                                                                 \
        NORM(T).sums(dy, y, kept, mean, plain, weighted);                                                           \
    }                                                                                                               \
    extern "C" void norm_backward_##name(NORM_SIZES, const T* dy, const T* y, const Number<T>* chosen, const T* x,   \
                                         const T* scale, const T* level, const T* tilt, T* dx) {                    \
        NORM(T).backward(dy, y, chosen, x, scale, level, tilt, dx);                                                 \
    }

EXPORT(float, float32)
EXPORT(double, float64)
