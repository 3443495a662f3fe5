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

// Some rows of b, its columns in panels: [panel][rows][wide], zero beyond the columns that are there. `left` of a row's
// columns are at and after b; the first `count` of them are wanted.
template <class T>
void pack_rows(const T* b, Int columns, Int rows, Int count, Int left, T* packed) {
    for (Int p = 0; p < rows; ++p, b += columns)
        for (Int column = 0, wide; column < count; column += wide) {
            wide = panel<T>(left - column);
            T* to = packed + column * rows + p * wide;
            if (column + wide <= left) {
                for (Int j = 0; j < wide; j += lanes<T>) store(to + j, load(b + column + j));
                continue;
            }
            std::copy(b + column, b + left, to);
            std::fill(to + left - column, to + wide, T(0));
        }
}

// Blocks of b are packed so that they stay in the second cache while all rows of a pass over them: NEAR steps of two
// vectors, or one panel if that is longer. Blocks of FEW steps are read in long runs of memory.
constexpr Int NEAR = 256 * 1024 / (2 * VECTOR_BYTES), FEW = 32;
template <class T>
Int block_columns(Int depth) {
    return 2 * lanes<T> * std::max<Int>(1, NEAR / std::max<Int>(1, depth));
}

// Some columns of c [rows][columns], which begin at zero or go on: + a (its rows `to_row` apart) x packed rows of b.
template <class T>
void add_block(Int rows, Int start, Int end, Int columns, Int deep, const T* a, Int to_row, const T* packed, bool go_on, T* c) {
    T edge[TILE_ROWS * 2 * lanes<T>];
    for (Int row = 0, i = 0, tall; row < rows; row += tall, ++i) {
        tall = portion(rows, TILE_ROWS, i);
        for (Int column = start, wide; column < end; column += wide) {
            wide = panel<T>(columns - column);
            T* target = c + row * columns + column;
            Int left = column + wide > columns ? columns - column : 0;  // where a vector would reach beyond c
            T* out = left ? edge : target;
            Int out_row = left ? wide : columns;
            for (Int r = 0; left && r < tall; ++r) std::copy_n(target + r * columns, left, edge + r * wide);
            pick_tile<T>(tall, wide / lanes<T>)(1, deep, a + row * to_row, 0, to_row, 1, packed + (column - start) * deep,
                                                go_on ? out : nullptr, out_row, out, out_row);
            for (Int r = 0; left && r < tall; ++r) std::copy_n(edge + r * wide, left, target + r * columns);
        }
    }
}

// c [rows][columns] = a [rows][depth] x b [depth][columns], taking up to `most` steps of the depth at a time.
template <class T>
void product(Int rows, Int columns, Int depth, Int most, const T* a, const T* b, T* c, T* packed) {
    Int size = block_columns<T>(std::min(depth, most));
    for (Int start = 0; start < columns; start += size) {
        Int end = std::min(columns, start + size);
        for (Int step = 0, i = 0, deep; step < depth; step += deep, ++i) {
            deep = portion(depth, most, i);
            pack_rows(b + step * columns + start, columns, deep, end - start, columns - start, packed);
            add_block(rows, start, end, columns, deep, a + step, depth, packed, step > 0, c);
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
