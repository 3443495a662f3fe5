// Convolutions of three by three with many channels, in tiles of four by four; the filter's gradient takes the same way
// back. Images are [batch][height][width][channels], and channels whole vectors.

#pragma once

#include <memory>
#include <new>

#include "points.h"

namespace {

constexpr int TAPS = 3;
constexpr int OUTS = SIDE - TAPS + 1;  // of a tile, each way
constexpr Int BLOCK = 36;              // tiles that are worked on at once, so that they stay near

template <class T>
class Winograd {
  public:
    Winograd(Int batch, Int height, Int width, Int in, Int out, Int pad)
        : height(height), width(width), in(in), out(out), pad(pad), rows(height + 2 * pad - 2), columns(width + 2 * pad - 2),
          down((rows + OUTS - 1) / OUTS), across((columns + OUTS - 1) / OUTS), tiles(batch * down * across),
          to_filter(apart<T>(in * out)), to_input(apart<T>(BLOCK * in)), to_output(apart<T>(BLOCK * out)),
          nothing(std::max(in, out), T(0)), bin(out) {}

    // y = the convolution of x; of the other way, from a gradient of the outputs to one of the inputs, if `turned`.
    void forward(const T* x, const T* weight, bool turned, const T* bias, T* y) {
        Room filters(to_filter), inputs(to_input), outputs(to_output);
        pack_points<TAPS>(weight, in, out, turned, to_filter, filters.get());
        for (Int first = 0; first < tiles; first += BLOCK) {
            Int count = std::min(BLOCK, tiles - first);
            for (Int t = 0; t < count; ++t) take(x, first + t, inputs.get() + t * in);
            for (Int k = 0; k < PLACES; ++k)
                multiply<T>(count, out, in, inputs.get() + k * to_input, in, 1, filters.get() + k * to_filter, in, nullptr,
                            outputs.get() + k * to_output);
            for (Int t = 0; t < count; ++t) give(outputs.get() + t * out, bias, first + t, y);
        }
    }

    void filter_gradient(const T* x, const T* dy, T* d_weight) {
        Room sums(to_filter), inputs(to_input), slopes(to_output);
        std::fill_n(sums.get(), PLACES * to_filter, T(0));
        for (Int first = 0; first < tiles; first += BLOCK) {
            Int count = std::min(BLOCK, tiles - first);
            for (Int t = 0; t < count; ++t) take(x, first + t, inputs.get() + t * in);
            for (Int t = 0; t < count; ++t) take_slope(dy, first + t, slopes.get(), t);
            for (Int k = 0; k < PLACES; ++k) {
                T* sum = sums.get() + k * to_filter;
                multiply<T>(in, out, count, inputs.get() + k * to_input, 1, in, slopes.get() + k * to_output, BLOCK, sum, sum);
            }
        }
        unpack_filters(sums.get(), d_weight);
    }

  private:
    struct Aligned {
        void operator()(T* p) const { ::operator delete[](p, std::align_val_t(64)); }
    };
    struct Room {  // for 36 matrices
        explicit Room(Int step) : start(new (std::align_val_t(64)) T[PLACES * step]) {}
        T* get() const { return start.get(); }
        std::unique_ptr<T[], Aligned> start;
    };

    Int height, width, in, out, pad, rows, columns, down, across, tiles, to_filter, to_input, to_output;
    std::vector<T> nothing, bin;  // what is read from, and written to, where an image ends

    // G' s G of every sum, as filters.
    void unpack_filters(const T* sums, T* d_weight) const {
        for (Int c = 0; c < in; ++c)
            for (Int first = 0; first < out; first += lanes<T>) {
                vec<T> s[SIDE][SIDE], g[TAPS][TAPS];
                get<T>(sums + c * out + first, to_filter, s);
                both_ways(s, g, Points<T>::template coefficients<TAPS, true, vec<T>>);
                for (int lane = 0; lane < lanes<T>; ++lane)
                    for (int k = 0; k < TAPS * TAPS; ++k)
                        d_weight[((first + lane) * in + c) * TAPS * TAPS + k] = g[k / TAPS][k % TAPS][lane];
            }
    }

    // Where the N by N pixels of a tile lie, which begin `before` its corner; `outside` for those beyond the image.
    template <int N, class Pointer>
    void locate(Int tile, Int before, Pointer images, Int high, Int wide, Int channels, Pointer outside,
                Pointer (&at)[N][N]) const {
        Int row = tile / across % down * OUTS - before, column = tile % across * OUTS - before;
        Pointer image = images + tile / (down * across) * high * wide * channels;
        for (int p = 0; p < N; ++p)
            for (int q = 0; q < N; ++q) {
                Int y = row + p, x = column + q;
                at[p][q] = y >= 0 && y < high && x >= 0 && x < wide ? image + (y * wide + x) * channels : outside;
            }
    }

    // B' d B of the inputs of a tile.
    void take(const T* x, Int tile, T* places) const {
        const T* from[SIDE][SIDE];
        locate(tile, pad, x, height, width, in, nothing.data(), from);
        for (Int c = 0; c < in; c += lanes<T>) {
            vec<T> d[SIDE][SIDE], made[SIDE][SIDE];
            UNROLL for (int p = 0; p < SIDE; ++p)
                UNROLL for (int q = 0; q < SIDE; ++q) d[p][q] = load(from[p][q] + c);
            both_ways(d, made, Points<T>::template inputs<vec<T>>);
            put<T>(made, places + c, to_input);
        }
    }

    // A' m A of the places of a tile, with the bias, to its outputs.
    void give(const T* places, const T* bias, Int tile, T* y) {
        T* to[OUTS][OUTS];
        locate(tile, 0, y, rows, columns, out, bin.data(), to);
        for (Int c = 0; c < out; c += lanes<T>) {
            vec<T> m[SIDE][SIDE], made[OUTS][OUTS], shift = bias ? load(bias + c) : vec<T>{};
            get<T>(places + c, to_output, m);
            both_ways(m, made, Points<T>::template coefficients<OUTS, false, vec<T>>);
            UNROLL for (int p = 0; p < OUTS; ++p)
                UNROLL for (int q = 0; q < OUTS; ++q) store(to[p][q] + c, made[p][q] + shift);
        }
    }

    // A y A' of the gradients of a tile, in panels as products take them.
    void take_slope(const T* dy, Int tile, T* places, Int t) const {
        const T* from[OUTS][OUTS];
        locate(tile, 0, dy, rows, columns, out, nothing.data(), from);
        for (Int first = 0, wide; first < out; first += wide) {
            wide = panel<T>(out - first);
            for (Int c = first; c < first + wide; c += lanes<T>) {
                vec<T> y[OUTS][OUTS], made[SIDE][SIDE];
                UNROLL for (int p = 0; p < OUTS; ++p)
                    UNROLL for (int q = 0; q < OUTS; ++q) y[p][q] = load(from[p][q] + c);
                both_ways(y, made, Points<T>::template values<OUTS, false, vec<T>>);
                put<T>(made, places + first * BLOCK + t * wide + (c - first), to_output);
            }
        }
    }
};

}  // namespace
