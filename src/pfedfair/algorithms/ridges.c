/* Linear systems that differ by their diagonals, see ridges.py.
 *
 * A positive definite matrix, and LANES numbers for every place of its diagonal: so many Cholesky
 * factorisations go side by side, one in each lane of a vector. Nothing is ever added up across
 * lanes, and each number that is read serves all of them. In double precision, by one thread.
 */

#include <math.h>
#include <stdint.h>

/* Compiled for several processors, where the system can choose among them when it is loaded. */
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
#define FAST __attribute__((target_clones("avx512f", "avx2,fma", "default")))
#else
#define FAST
#endif

#define INLINE static inline __attribute__((always_inline))
#define LANES 8
#define SIDE 4 /* of the blocks that are worked on at a time */

typedef double lanes __attribute__((vector_size(8 * LANES)));

/* The number of this interface: an older library beside newer Python is not used. */
int64_t pfedfair_interface(void) { return 2; }

/* Where a strip begins: SIDE rows of the lower triangle, column after column. */
INLINE lanes *strip_of(lanes *factor, int64_t number)
{
    return factor + SIDE * SIDE * (number * (number + 1) / 2);
}

/* A block less the products of the first `columns` columns of two strips, its rows' and columns'. */
INLINE void subtract(int64_t columns, const lanes *rows, const lanes *others,
                     lanes block[SIDE][SIDE])
{
    for (int64_t k = 0; k < columns; k++, rows += SIDE, others += SIDE)
        for (int r = 0; r < SIDE; r++)
            for (int c = 0; c < SIDE; c++) block[r][c] -= rows[r] * others[c];
}

/* One over the roots of pivots. A lane whose pivot is not above 0 has failed. */
INLINE void turn(const lanes *pivots, lanes *turned, int64_t *failed)
{
    for (int l = 0; l < LANES; l++) {
        int good = (*pivots)[l] > 0.0;
        if (!good) *failed |= (int64_t)1 << l;
        (*turned)[l] = good ? 1.0 / sqrt((*pivots)[l]) : 1.0;
    }
}

/* Solve (matrix + diag(more[:, l])) x = sides[:, l] for every lane l, into found (n, LANES).
 *
 * `matrix` is the upper triangle of (n, n), row by row; `more` and `sides` are (n, LANES). In
 * `room`, at an address that is a multiple of 8 * LANES, are LANES numbers for every place of a lower
 * triangle in blocks, and for 2 * (n + SIDE) more. What is returned has a bit for each lane whose
 * matrix is not positive definite: what is found there means nothing. */
FAST int64_t pfedfair_ridges(int64_t n, const double *matrix, const double *more,
                             const double *sides, double *found, double *room)
{
    int64_t strips = (n + SIDE - 1) / SIDE, failed = 0;
    lanes *turned = (lanes *)room, *answers = turned + strips * SIDE; /* turned: of the diagonal */
    lanes *factor = answers + strips * SIDE;
    for (int64_t i = 0; i < strips; i++) {
        lanes *own = strip_of(factor, i);
        for (int64_t j = 0; j <= i; j++) {
            lanes block[SIDE][SIDE], *to = own + SIDE * SIDE * j;
            for (int r = 0; r < SIDE; r++)
                for (int c = 0; c < SIDE; c++) {
                    int64_t row = i * SIDE + r, column = j * SIDE + c;
                    int inside = row < n && column <= row;
                    double number = row == column ? 1.0 : 0.0;
                    if (inside) number = matrix[column * (2 * n - column - 1) / 2 + row];
                    for (int l = 0; l < LANES; l++) block[r][c][l] = number;
                    if (inside && row == column)
                        for (int l = 0; l < LANES; l++) block[r][c][l] += more[row * LANES + l];
                }
            const lanes *others = strip_of(factor, j), *corner = others + SIDE * SIDE * j;
            subtract(j * SIDE, own, others, block);
            for (int c = 0; c < SIDE; c++) {
                for (int d = 0; d < c; d++) {
                    lanes by = i == j ? block[c][d] : corner[d * SIDE + c];
                    for (int r = 0; r < SIDE; r++) block[r][c] -= block[r][d] * by;
                }
                if (i == j) turn(&block[c][c], turned + i * SIDE + c, &failed);
                for (int r = 0; r < SIDE; r++) block[r][c] *= turned[j * SIDE + c];
            }
            for (int c = 0; c < SIDE; c++)
                for (int r = 0; r < SIDE; r++) to[c * SIDE + r] = block[r][c];
        }
    }
    for (int64_t i = 0; i < strips * SIDE; i++) { /* forward */
        lanes *own = strip_of(factor, i / SIDE) + i % SIDE, sum = {0.0};
        if (i < n)
            for (int l = 0; l < LANES; l++) sum[l] = sides[i * LANES + l];
        for (int64_t k = 0; k < i; k++) sum -= own[k * SIDE] * answers[k];
        answers[i] = sum * turned[i];
    }
    for (int64_t i = strips * SIDE - 1; i >= 0; i--) { /* and back */
        lanes *own = strip_of(factor, i / SIDE) + i % SIDE;
        answers[i] *= turned[i];
        for (int64_t k = 0; k < i; k++) answers[k] -= own[k * SIDE] * answers[i];
    }
    for (int64_t i = 0; i < n; i++)
        for (int l = 0; l < LANES; l++) found[i * LANES + l] = answers[i][l];
    return failed;
}
