// The minimal filtering of Winograd (Lavin and Gray, 2016): with Y a tile of outputs, d the six by six inputs that it
// sees and g the filter,
//
//     Y = A' [(G g G') * (B' d B)] A,
//
// where * is number by number and so, summed over channels, 36 products of matrices. A filter of three by three makes
// tiles of four by four, with 36 multiplications instead of 144; one of five by five makes tiles of two by two, with 36
// instead of 100.

#pragma once

#include "products.h"

namespace {

constexpr int SIDE = 6;
constexpr Int PLACES = SIDE * SIDE;

// The matrices along one dimension: polynomials of degree 5 are told by their values at 0, P, -P, Q, -Q and infinity.
// Errors are least where the points lie close to one and their product is one.
template <class T>
struct Points {
    static constexpr T P = T(2) / 3, Q = T(3) / 2, PP = P * P, QQ = Q * Q;
    static constexpr T AT_P = 1 / (2 * PP * (PP - QQ)), AT_Q = 1 / (2 * QQ * (QQ - PP));  // what G divides by

    // B' d
    template <class V>
    static void inputs(const V* d, V* out) {
        V even = d[4] - QQ * d[2], odd = P * d[3] - Q * d[1];  // as P Q = 1
        out[0] = d[0] - (PP + QQ) * d[2] + d[4], out[1] = even + odd, out[2] = even - odd;
        even = d[4] - PP * d[2], odd = Q * d[3] - P * d[1];
        out[3] = even + odd, out[4] = even - odd, out[5] = d[1] - (PP + QQ) * d[3] + d[5];
    }

    // The values of a polynomial with N coefficients: A y, and with WEIGHED G g.
    template <int N, bool WEIGHED, class V>
    static void values(const V* c, V* out) {
        V even_p = c[(N - 1) / 2 * 2], even_q = even_p, odd_p = c[N / 2 * 2 - 1], odd_q = odd_p;
        UNROLL for (int k = N - 3; k >= 0; --k) {
            V &p = k % 2 ? odd_p : even_p, &q = k % 2 ? odd_q : even_q;
            p = p * PP + c[k], q = q * QQ + c[k];
        }
        odd_p *= P, odd_q *= Q;
        if constexpr (WEIGHED) even_p *= AT_P, odd_p *= AT_P, even_q *= AT_Q, odd_q *= AT_Q;
        out[0] = c[0], out[5] = c[N - 1];
        out[1] = even_p + odd_p, out[2] = even_p - odd_p, out[3] = even_q + odd_q, out[4] = even_q - odd_q;
    }

    // The other way, from what is at the points to N coefficients: A' m, and with WEIGHED G' s.
    template <int N, bool WEIGHED, class V>
    static void coefficients(const V* m, V* out) {
        V p[2] = {m[1] + m[2], (m[1] - m[2]) * P}, q[2] = {m[3] + m[4], (m[3] - m[4]) * Q};
        if constexpr (WEIGHED) p[0] *= AT_P, p[1] *= AT_P, q[0] *= AT_Q, q[1] *= AT_Q;
        UNROLL for (int k = 0; k < N; ++k) {
            out[k] = p[k % 2] + q[k % 2];
            p[k % 2] *= PP, q[k % 2] *= QQ;
        }
        out[0] += m[0], out[N - 1] += m[5];
    }
};

// out [M][M] = where `along` leads from N numbers to M, down the columns of x [N][N] and then across.
template <class V, int N, int M, class Along>
inline void both_ways(const V (&x)[N][N], V (&out)[M][M], Along along) {
    V half[N][M];
    UNROLL for (int q = 0; q < N; ++q) {
        V column[N];
        UNROLL for (int p = 0; p < N; ++p) column[p] = x[p][q];
        along(column, half[q]);
    }
    UNROLL for (int p = 0; p < M; ++p) {
        V row[N];
        UNROLL for (int q = 0; q < N; ++q) row[q] = half[q][p];
        along(row, out[p]);
    }
}

// From one of the 36 matrices to the next: not a power of two, or they would meet in one cache set.
template <class T>
Int apart(Int numbers) {
    return numbers + 2 * lanes<T>;
}

template <class T>
inline void put(const vec<T> (&made)[SIDE][SIDE], T* target, Int step) {
    UNROLL for (int p = 0; p < SIDE; ++p)
        UNROLL for (int q = 0; q < SIDE; ++q, target += step) store(target, made[p][q]);
}
template <class T>
inline void get(const T* from, Int step, vec<T> (&found)[SIDE][SIDE]) {
    UNROLL for (int p = 0; p < SIDE; ++p)
        UNROLL for (int q = 0; q < SIDE; ++q, from += step) found[p][q] = load(from);
}

// G g G' of every filter [out][in][N][N], as panels of outputs: [place][panel][in][wide]. `turned`, filters are those of
// the way back from outputs to inputs.
template <int N, class T>
void pack_points(const T* weight, Int in, Int out, bool turned, Int step, T* packed) {
    for (Int first = 0, wide; first < out; first += wide) {
        wide = panel<T>(out - first);
        for (Int c = 0; c < in; ++c)
            for (Int j = 0; j < wide; j += lanes<T>) {
                vec<T> g[N][N], made[SIDE][SIDE];
                for (int lane = 0; lane < lanes<T>; ++lane) {
                    Int o = first + j + lane;
                    const T* own = weight + N * N * (turned ? c * out + o : o * in + c);
                    for (int k = 0; k < N * N; ++k) g[k / N][k % N][lane] = o >= out ? 0 : own[turned ? N * N - 1 - k : k];
                }
                both_ways(g, made, Points<T>::template values<N, true, vec<T>>);
                put<T>(made, packed + first * in + c * wide + j, step);
            }
    }
}

// c [m][n] = a x b, and what is there before if `start`; b is in panels [room][wide], of which `depth` rows count.
template <class T>
void multiply(Int m, Int n, Int depth, const T* a, Int to_row, Int to_step, const T* b, Int room, const T* start, T* c) {
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

}  // namespace
