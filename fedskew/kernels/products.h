// Vectors as wide as the compiler was told, and dense products of them: what all kernels are made of.

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#ifndef VECTOR_BYTES
#define VECTOR_BYTES 16
#endif

namespace {

using Int = int64_t;

template <class T>
struct Simd {
    typedef T vec __attribute__((vector_size(VECTOR_BYTES)));
    typedef T loose __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(T)), may_alias));
};
template <class T>
using vec = typename Simd<T>::vec;
template <class T>
constexpr int lanes = VECTOR_BYTES / sizeof(T);
template <class T>
using Number = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;  // as wide as T
template <class T>
using mask = decltype(vec<T>{} < vec<T>{});  // vectors of such numbers

template <class T>
inline vec<T> load(const T* p) {
    return *reinterpret_cast<const typename Simd<T>::loose*>(p);
}
template <class T, class V>
inline void store(T* p, V v) {
    *reinterpret_cast<typename Simd<T>::loose*>(p) = v;
}

constexpr bool MANY_REGISTERS = VECTOR_BYTES == 64;
constexpr int TILE_ROWS = MANY_REGISTERS ? 12 : 6;  // times two vectors: the sums of a tile stay in registers
constexpr int SUMS = MANY_REGISTERS ? 24 : 12;      // vectors of a filter that stay in registers
constexpr int MOST_RUNS = 5;

#define UNROLL _Pragma("GCC unroll 32")  // so early that the sums become registers

constexpr Int up(Int n, Int to) { return (n + to - 1) / to * to; }

// n things in equal portions of at most `most`: the size of portion number i.
inline Int portion(Int n, Int most, Int i) {
    Int parts = (n + most - 1) / most;
    return n / parts + (i < n % parts);
}

// ------------------------------------------------------------------------------------------------- products

// out [M][N vectors] = start + a (M rows, read number by number) x b (packed, N vectors for each step).
// Steps come in `runs` of `depth`; `a` jumps from one run to the next. Rows of `start`, if any, lie `start_row` apart:
// 0 for a bias, as in `out` where sums go on.
template <class T, int M, int N>
void tile(Int runs, Int depth, const T* a, Int jump, Int to_row, Int to_step, const T* b, const T* start, Int start_row,
          T* out, Int out_row) {
    vec<T> sum[M][N];
    UNROLL for (int i = 0; i < M; ++i)
        UNROLL for (int j = 0; j < N; ++j)
            sum[i][j] = start ? load(start + i * start_row + j * lanes<T>) : vec<T>{};
    for (Int run = 0; run < runs; ++run, a += jump) {
        const T* here = a;
        for (Int step = 0; step < depth; ++step, here += to_step, b += N * lanes<T>) {
            vec<T> right[N];
            UNROLL for (int j = 0; j < N; ++j) right[j] = load(b + j * lanes<T>);
            UNROLL for (int i = 0; i < M; ++i)
                UNROLL for (int j = 0; j < N; ++j) sum[i][j] += here[i * to_row] * right[j];
        }
    }
    UNROLL for (int i = 0; i < M; ++i)
        UNROLL for (int j = 0; j < N; ++j) store(out + i * out_row + j * lanes<T>, sum[i][j]);
}

template <class T>
using Tile = void (*)(Int, Int, const T*, Int, Int, Int, const T*, const T*, Int, T*, Int);

template <class T, int N, int... M>
Tile<T> pick_tile(Int rows, std::integer_sequence<int, M...>) {
    static const Tile<T> all[] = {tile<T, M + 1, N>...};
    return all[rows - 1];
}
template <class T>
Tile<T> pick_tile(Int rows, Int vectors) {
    auto sizes = std::make_integer_sequence<int, TILE_ROWS>{};
    return vectors == 1 ? pick_tile<T, 1>(rows, sizes) : pick_tile<T, 2>(rows, sizes);
}

// Columns are packed two vectors at a time, and one where that suffices.
template <class T>
Int panel(Int columns_left) {
    return columns_left > lanes<T> ? 2 * lanes<T> : lanes<T>;
}

// Some columns of b [depth][columns], close together: [depth][wide], zero beyond those that are there.
template <class T>
void pack_columns(const T* b, Int columns, Int depth, Int used, Int wide, T* packed) {
    for (Int p = 0; p < depth; ++p, b += columns, packed += wide) {
        if (used == wide) {
            for (Int j = 0; j < wide; j += lanes<T>) store(packed + j, load(b + j));
            continue;
        }
        std::copy(b, b + used, packed);
        std::fill(packed + used, packed + wide, T(0));
    }
}

// Columns of b are packed in blocks that stay in the second cache while all rows of a pass over them, so that rows of c
// are written in long runs. A block holds NEAR steps of two vectors, or one panel if that is longer.
constexpr Int NEAR = 128 * 1024 / (2 * VECTOR_BYTES);
template <class T>
Int block_columns(Int depth) {
    return 2 * lanes<T> * std::max<Int>(1, NEAR / std::max<Int>(1, depth));
}

// c [rows][columns] = a x b, where a(i, p) = a[i * to_row + p * to_step] and b is [depth][columns].
template <class T>
void product(Int rows, Int columns, Int depth, const T* a, Int to_row, Int to_step, const T* b, T* c, T* packed) {
    T out[TILE_ROWS * 2 * lanes<T>];
    Int size = block_columns<T>(depth);
    for (Int start = 0; start < columns; start += size) {
        Int end = std::min(columns, start + size);
        for (Int column = start, wide; column < end; column += wide) {
            wide = panel<T>(columns - column);
            pack_columns(b + column, columns, depth, std::min(wide, columns - column), wide,
                         packed + (column - start) * depth);
        }
        for (Int row = 0, i = 0, tall; row < rows; row += tall, ++i) {
            tall = portion(rows, TILE_ROWS, i);
            for (Int column = start, wide; column < end; column += wide) {
                wide = panel<T>(columns - column);
                Int used = std::min(wide, columns - column);
                bool whole = used == wide;
                T* target = c + row * columns + column;
                pick_tile<T>(tall, wide / lanes<T>)(1, depth, a + row * to_row, 0, to_row, to_step,
                                                    packed + (column - start) * depth, nullptr, 0,
                                                    whole ? target : out, whole ? columns : wide);
                for (Int r = 0; r < (whole ? 0 : tall); ++r) std::copy_n(out + r * wide, used, target + r * columns);
            }
        }
    }
}

// Exchanges the off-diagonal halves of a square of vectors, and of its halves, and so on: the transpose.
template <class T, int HALF, int... I>
inline void exchange(vec<T>& a, vec<T>& b, std::integer_sequence<int, I...>) {
#ifdef __clang__
    vec<T> low = __builtin_shufflevector(a, b, (I & HALF ? lanes<T> + I - HALF : I)...);
    b = __builtin_shufflevector(a, b, (I & HALF ? lanes<T> + I : I + HALF)...);
#else
    vec<T> low = __builtin_shuffle(a, b, mask<T>{(I & HALF ? lanes<T> + I - HALF : I)...});
    b = __builtin_shuffle(a, b, mask<T>{(I & HALF ? lanes<T> + I : I + HALF)...});
#endif
    a = low;
}
template <class T, int HALF>
inline void transpose_square(vec<T>* rows) {
    if constexpr (HALF > 0) {
        UNROLL for (int i = 0; i < lanes<T>; ++i)
            if (!(i & HALF)) exchange<T, HALF>(rows[i], rows[i + HALF], std::make_integer_sequence<int, lanes<T>>{});
        transpose_square<T, HALF / 2>(rows);
    }
}

// out [columns][..] = the transpose of x [rows][..]; successive rows lie `in_row` and `out_row` apart.
template <class T>
void transpose(const T* x, Int rows, Int columns, Int in_row, T* out, Int out_row) {
    constexpr int L = lanes<T>;
    for (Int r = 0; r < rows; r += L)
        for (Int c = 0; c < columns; c += L) {
            if (r + L <= rows && c + L <= columns) {
                vec<T> square[L];
                UNROLL for (int i = 0; i < L; ++i) square[i] = load(x + (r + i) * in_row + c);
                transpose_square<T, L / 2>(square);
                UNROLL for (int i = 0; i < L; ++i) store(out + (c + i) * out_row + r, square[i]);
                continue;
            }
            for (Int i = r; i < std::min(rows, r + L); ++i)
                for (Int j = c; j < std::min(columns, c + L); ++j) out[j * out_row + i] = x[i * in_row + j];
        }
}

}  // namespace
