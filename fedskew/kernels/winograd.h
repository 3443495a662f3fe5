// Convolutions of three by three with many channels, by the minimal filtering of Winograd (Lavin and Gray, 2016):
// four outputs of a channel take 16 multiplications instead of 36. With Y the two by two outputs, d the four by four
// inputs and g the filter,
//
//     Y = A' [(G g G') * (B' d B)] A,
//
// where * is number by number and so, summed over channels, 16 products of matrices; the filter's gradient takes the
// same way back. Images are [batch][height][width][channels], and channels whole vectors.

#pragma once

#include <memory>
#include <new>

#include "products.h"

namespace {

constexpr Int PLACES = 16;  // of a tile
constexpr Int BLOCK = 48;   // tiles that are worked on at once, so that they stay near

template <class T>
class Winograd {
  public:
    Winograd(Int batch, Int height, Int width, Int in, Int out, Int pad)
        : height(height), width(width), in(in), out(out), pad(pad), rows(height + 2 * pad - 2), columns(width + 2 * pad - 2),
          down((rows + 1) / 2), across((columns + 1) / 2), tiles(batch * down * across), nothing(std::max(in, out), T(0)),
          bin(out) {}

    // y = the convolution of x; of the other way, from a gradient of the outputs to one of the inputs, if `turned`.
    void forward(const T* x, const T* weight, bool turned, const T* bias, T* y) {
        Room filters(PLACES * in * out), inputs(PLACES * stride(in)), outputs(PLACES * stride(out));
        pack_filters(weight, turned, filters.get());
        for (Int first = 0; first < tiles; first += BLOCK) {
            Int count = std::min(BLOCK, tiles - first);
            for (Int t = 0; t < count; ++t) take(x, first + t, inputs.get() + t * in);
            for (Int k = 0; k < PLACES; ++k)
                multiply(count, out, in, inputs.get() + k * stride(in), in, 1, filters.get() + k * in * out, in, nullptr,
                         outputs.get() + k * stride(out));
            for (Int t = 0; t < count; ++t) give(outputs.get() + t * out, bias, first + t, y);
        }
    }

    void filter_gradient(const T* x, const T* dy, T* d_weight) {
        Room sums(PLACES * in * out), inputs(PLACES * stride(in)), slopes(PLACES * stride(out));
        std::fill_n(sums.get(), PLACES * in * out, T(0));
        for (Int first = 0; first < tiles; first += BLOCK) {
            Int count = std::min(BLOCK, tiles - first);
            for (Int t = 0; t < count; ++t) take(x, first + t, inputs.get() + t * in);
            for (Int t = 0; t < count; ++t) take_slope(dy, first + t, slopes.get(), t);
            for (Int k = 0; k < PLACES; ++k) {
                T* sum = sums.get() + k * in * out;
                multiply(in, out, count, inputs.get() + k * stride(in), 1, in, slopes.get() + k * stride(out), BLOCK, sum, sum);
            }
        }
        for (Int o = 0; o < out; ++o)
            for (Int c = 0; c < in; ++c) fold(sums.get() + c * out + o, d_weight + (o * in + c) * 9);
    }

  private:
    struct Aligned {
        void operator()(T* p) const { ::operator delete[](p, std::align_val_t(64)); }
    };
    struct Room {
        explicit Room(Int count) : start(new (std::align_val_t(64)) T[count]) {}
        T* get() const { return start.get(); }
        std::unique_ptr<T[], Aligned> start;
    };

    Int height, width, in, out, pad, rows, columns, down, across, tiles;
    std::vector<T> nothing, bin;  // what is read from, and written to, where an image ends

    // From one of the 16 matrices of a block to the next: not a power of two, or they would meet in one cache set.
    static Int stride(Int channels) { return BLOCK * channels + 2 * lanes<T>; }

    // c [m][n] = a x b, and what is there before if `start`; b is in panels [room][wide], of which `depth` rows count.
    static void multiply(Int m, Int n, Int depth, const T* a, Int to_row, Int to_step, const T* b, Int room, const T* start,
                         T* c) {
        for (Int column = 0, wide; column < n; column += wide) {
            wide = panel<T>(n - column);
            for (Int row = 0, i = 0, tall; row < m; row += tall, ++i) {
                tall = portion(m, TILE_ROWS, i);
                Int at = row * n + column;
                pick_tile<T>(tall, wide / lanes<T>)(1, depth, a + row * to_row, 0, to_row, to_step, b + column * room,
                                                    start ? start + at : nullptr, n, c + at, n);
            }
        }
    }

    // G g G' of every filter, as panels of outputs: [place][panel][in][wide].
    void pack_filters(const T* weight, bool turned, T* packed) const {
        for (Int first = 0, wide; first < out; first += wide) {
            wide = panel<T>(out - first);
            for (Int c = 0; c < in; ++c)
                for (Int j = 0; j < wide; ++j) {
                    Int o = first + j;
                    const T* g = weight + 9 * (turned ? c * out + o : o * in + c);
                    T across[4][3];
                    for (Int q = 0; q < 3; ++q) {
                        T a = g[turned ? 8 - q : q], b = g[turned ? 5 - q : 3 + q], d = g[turned ? 2 - q : 6 + q];
                        across[0][q] = a, across[1][q] = (a + b + d) / 2, across[2][q] = (a - b + d) / 2, across[3][q] = d;
                    }
                    T* target = packed + first * in + c * wide + j;
                    for (Int p = 0; p < 4; ++p, target += 4 * in * out) {
                        T a = across[p][0], b = across[p][1], d = across[p][2];
                        target[0] = a, target[in * out] = (a + b + d) / 2;
                        target[2 * in * out] = (a - b + d) / 2, target[3 * in * out] = d;
                    }
                }
        }
    }

    // G' s G of one filter.
    void fold(const T* s, T* g) const {
        T half[3][4];
        for (Int q = 0; q < 4; ++q) {
            T a = s[q * in * out], b = s[(4 + q) * in * out], c = s[(8 + q) * in * out], d = s[(12 + q) * in * out];
            half[0][q] = a + (b + c) / 2, half[1][q] = (b - c) / 2, half[2][q] = (b + c) / 2 + d;
        }
        for (Int p = 0; p < 3; ++p, g += 3) {
            T a = half[p][0], b = half[p][1], c = half[p][2], d = half[p][3];
            g[0] = a + (b + c) / 2, g[1] = (b - c) / 2, g[2] = (b + c) / 2 + d;
        }
    }

    struct Corner {
        Int image, row, column;
    };
    Corner corner(Int tile) const {
        return {tile / (down * across), tile / across % down * 2, tile % across * 2};
    }

    // B' d B of the inputs of a tile, to 16 places `stride` apart.
    void take(const T* x, Int tile, T* places) const {
        Corner at = corner(tile);
        const T* from[4][4];
        for (Int p = 0; p < 4; ++p)
            for (Int q = 0; q < 4; ++q) {
                Int row = at.row - pad + p, column = at.column - pad + q;
                bool inside = row >= 0 && row < height && column >= 0 && column < width;
                from[p][q] = inside ? x + ((at.image * height + row) * width + column) * in : nothing.data();
            }
        for (Int c = 0; c < in; c += lanes<T>) {
            vec<T> half[4][4];
            UNROLL for (int q = 0; q < 4; ++q) {
                vec<T> a = load(from[0][q] + c), b = load(from[1][q] + c), d = load(from[2][q] + c), e = load(from[3][q] + c);
                half[0][q] = a - d, half[1][q] = b + d, half[2][q] = d - b, half[3][q] = b - e;
            }
            T* target = places + c;
            UNROLL for (int p = 0; p < 4; ++p) {
                vec<T> a = half[p][0], b = half[p][1], d = half[p][2], e = half[p][3];
                store(target, a - d), target += stride(in);
                store(target, b + d), target += stride(in);
                store(target, d - b), target += stride(in);
                store(target, b - e), target += stride(in);
            }
        }
    }

    // A' m A of 16 places, with the bias, to the outputs of a tile.
    void give(const T* places, const T* bias, Int tile, T* y) {
        Corner at = corner(tile);
        T* to[2][2];
        for (Int p = 0; p < 2; ++p)
            for (Int q = 0; q < 2; ++q) {
                bool inside = at.row + p < rows && at.column + q < columns;
                to[p][q] = inside ? y + ((at.image * rows + at.row + p) * columns + at.column + q) * out : bin.data();
            }
        for (Int c = 0; c < out; c += lanes<T>) {
            vec<T> half[2][4], shift = bias ? load(bias + c) : vec<T>{};
            UNROLL for (int q = 0; q < 4; ++q) {
                const T* m = places + c + q * stride(out);
                vec<T> a = load(m), b = load(m + 4 * stride(out)), d = load(m + 8 * stride(out)), e = load(m + 12 * stride(out));
                half[0][q] = a + b + d, half[1][q] = b - d - e;
            }
            UNROLL for (int p = 0; p < 2; ++p) {
                store(to[p][0] + c, half[p][0] + half[p][1] + half[p][2] + shift);
                store(to[p][1] + c, half[p][1] - half[p][2] - half[p][3] + shift);
            }
        }
    }

    // A y A' of the gradients of a tile, in panels as products take them.
    void take_slope(const T* dy, Int tile, T* places, Int t) const {
        Corner at = corner(tile);
        const T* from[2][2];
        for (Int p = 0; p < 2; ++p)
            for (Int q = 0; q < 2; ++q) {
                bool inside = at.row + p < rows && at.column + q < columns;
                from[p][q] = inside ? dy + ((at.image * rows + at.row + p) * columns + at.column + q) * out : nothing.data();
            }
        for (Int first = 0, wide; first < out; first += wide) {
            wide = panel<T>(out - first);
            for (Int c = first; c < first + wide; c += lanes<T>) {
                vec<T> half[4][2];
                UNROLL for (int q = 0; q < 2; ++q) {
                    vec<T> a = load(from[0][q] + c), b = load(from[1][q] + c);
                    half[0][q] = a, half[1][q] = a + b, half[2][q] = a - b, half[3][q] = -b;
                }
                T* target = places + first * BLOCK + t * wide + (c - first);
                UNROLL for (int p = 0; p < 4; ++p) {
                    vec<T> a = half[p][0], b = half[p][1];
                    store(target, a), target += stride(out);
                    store(target, a + b), target += stride(out);
                    store(target, a - b), target += stride(out);
                    store(target, -b), target += stride(out);
                }
            }
        }
    }
};

}  // namespace
