/* The inputs of a network from packed cells, see unpack.py.
 *
 * Nothing here knows Python: it is called through ctypes, with memory that PyTorch has made. The
 * same operations as PyTorch's, so the same bits.
 */

#include <stdint.h>
#include <string.h>

/* Compiled for several processors, where the system can choose among them when it is loaded. */
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
#define FAST __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FAST
#endif

/* What an encoder is, as Python tells it. */
struct encoder {
    int64_t numbers, categories, width; /* columns of a person's cells, and inputs */
    float empty;                        /* the number of an empty cell */
    const int64_t *ramps;  /* where every number's ramps begin, and the end: (numbers + 1) */
    const float *means, *scales; /* of all ramps */
    const int64_t *levels; /* where every category's levels begin among inputs, (categories) */
    const int64_t *many;   /* how many these are */
    const int64_t *flags;  /* where every column's flag of empty cells is; -1 if there is none */
    const float *shares;   /* of the levels, at the places of their inputs */
};

/* The number of this interface: an older library beside newer Python is not used. */
int64_t pfedfair_interface(void) { return 1; }

/* Cells (n, numbers + categories) to inputs (n, width). */
FAST void pfedfair_unpack(const struct encoder *e, int64_t n, const float *cells, float *inputs)
{
    int64_t ramps = e->ramps[e->numbers], columns = e->numbers + e->categories;
    for (int64_t i = 0; i < n; i++, cells += columns, inputs += e->width) {
        for (int64_t c = 0; c < e->numbers; c++) {
            int64_t first = e->ramps[c], many = e->ramps[c + 1] - first;
            const float *mean = e->means + first, *scale = e->scales + first;
            float cell = cells[c], *to = inputs + first;
            if (cell == e->empty)
                memset(to, 0, sizeof(float) * many);
            else
                for (int32_t j = 0; j < (int32_t)many; j++) {
                    float part = cell - (float)j;
                    part = part < 0.0f ? 0.0f : part;
                    part = part > 1.0f ? 1.0f : part;
                    to[j] = (part - mean[j]) * scale[j];
                }
        }
        memset(inputs + ramps, 0, sizeof(float) * (e->width - ramps));
        for (int64_t c = 0; c < columns; c++)
            if (cells[c] == e->empty && e->flags[c] >= 0) inputs[e->flags[c]] = 1.0f;
        for (int64_t c = 0; c < e->categories; c++) {
            int64_t first = e->levels[c], many = e->many[c];
            float cell = cells[e->numbers + c], *to = inputs + first;
            if (cell == e->empty || cell >= (float)many)
                memcpy(to, e->shares + first, sizeof(float) * many);
            else if (cell >= 0.0f && cell == (float)(int64_t)cell)
                to[(int64_t)cell] = 1.0f;
        }
    }
}
