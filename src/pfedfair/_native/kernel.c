/* The forward and the backward pass of a stack of perceptrons with ReLU.
 *
 * Called through ctypes by kernel.py beside it, which checks all arguments and owns all memory.
 * One thread, and the same order of additions for a model wherever it stands in the stack.
 *
 * A hidden unit that is 0 on every row takes part in no product: in the training of Adult's
 * perceptron that is every second unit. Nothing but rounding changes.
 */

#include <stdint.h>
#include <string.h>

#define LANES 16      /* floats in a vector */
#define MOST_LANES 32 /* in a row of a panel */

#define INLINE static inline __attribute__((always_inline))

/* GCC's and Clang's own vectors: plain C for any processor, split where registers are shorter. */
typedef float vector __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

/* The right factor of a product: element (k, j) is values[units[k] * row + columns[j]], or, of a
 * matrix that is to be `turned`, values[j * row + units[k]]. No list means all in order. */
struct factor {
    const float *values;
    int64_t row;
    const int32_t *units, *columns;
    int turned;
};

#define ROWS 6
#define PARTS 1
#define NAME(f) f##_portable
#include "kernel.h"
#undef NAME

#if defined(__x86_64__)
#define NAME(f) f##_avx2
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
#include "kernel.h"
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#undef NAME

#undef ROWS
#undef PARTS
#define ROWS 12 /* AVX-512 has 32 registers of 16 floats */
#define PARTS 2
#define NAME(f) f##_avx512
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,fma")
#endif
#include "kernel.h"
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#undef NAME
#endif

/* The best that this processor can do. */
#if defined(__x86_64__)
#define NAME(f) \
    (__builtin_cpu_supports("avx512f") ? f##_avx512 \
     : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? f##_avx2 \
                                                                        : f##_portable)
#else
#define NAME(f) f##_portable
#endif

/* What kernel.py describes: `models` perceptrons, each with `n` rows of its own. */
struct stack {
    int64_t models, n, layers;
    const int64_t *widths; /* the inputs, then every layer's outputs */
    int64_t features;      /* inputs besides S */
    int64_t groups;        /* S is 0: no input; 2: one input; else one-hot */
    int64_t saved;         /* floats of `saved` per model: all layers' inputs and active units */
    int64_t widest;
    float *scratch; /* a panel, two slopes and a weight gradient: see kernel.py */
};

/* The number of this interface: a library of another version is not used. */
int64_t pfedfair_interface(void) { return 5; }

/* A layer's inputs as they are saved: those of its active units side by side, in `count` columns of
 * rows of `width` floats; then the units' numbers. */
struct inputs {
    float *rows;
    int32_t *units, *count;
};

INLINE struct inputs inputs_of(const struct stack *stack, float *saved, int64_t layer)
{
    int64_t width = stack->widths[layer];
    for (int64_t k = 0; k < layer; k++) saved += stack->widths[k] * (stack->n + 1) + 1;
    int32_t *units = (int32_t *)(saved + stack->n * width);
    return (struct inputs){saved, units, units + width};
}

/* Inputs with S behind them; all of them are active. */
static void lay_out(const struct stack *stack, const float *x, const int64_t *s, struct inputs to)
{
    int64_t features = stack->features, width = stack->widths[0];
    for (int64_t i = 0; i < stack->n; i++) {
        float *row = to.rows + i * width;
        if (features) memcpy(row, x + i * features, sizeof(float) * features);
        for (int64_t j = features; j < width; j++)
            row[j] = stack->groups == 2 ? (float)s[i] : (float)(s[i] == j - features);
    }
    for (int64_t j = 0; j < width; j++) to.units[j] = (int32_t)j;
    *to.count = (int32_t)width;
}

/* Logits ``(models, n, outputs)`` of every model on its rows; saves what the backward pass needs. */
void pfedfair_forward(const struct stack *stack, const float *w, int64_t w_row, const float *x,
                      const int64_t *s, float *saved, float *logits)
{
    int64_t n = stack->n, layers = stack->layers, outputs = stack->widths[layers];
    float *panel = stack->scratch;
    for (int64_t i = 0; i < stack->models; i++, w += w_row, saved += stack->saved) {
        const float *weight = w;
        lay_out(stack, x + i * n * stack->features, s + i * n, inputs_of(stack, saved, 0));
        for (int64_t layer = 0; layer < layers; layer++) {
            int64_t fan_in = stack->widths[layer], fan_out = stack->widths[layer + 1];
            struct inputs in = inputs_of(stack, saved, layer), out = {0};
            if (layer + 1 < layers) out = inputs_of(stack, saved, layer + 1);
            else out.rows = logits + i * n * outputs;
            struct factor turned = {weight, fan_in, in.units, 0, 1};
            NAME(product)(n, fan_out, *in.count, in.rows, fan_in, 0, &turned, panel, out.rows,
                          fan_out);
            const float *bias = weight + fan_in * fan_out;
            weight = bias + fan_out;
            if (layer + 1 < layers)
                NAME(activate)(n, fan_out, bias, out.rows, out.units, out.count);
            else
                for (int64_t k = 0; k < n * outputs; k++) out.rows[k] += bias[k % outputs];
        }
    }
}

/* A layer's gradient, from the slopes of `count` units ``(n, count)`` in rows of `row` floats. */
static void layer_gradient(int64_t n, const float *slope, int64_t row, int64_t count,
                           const int32_t *units, struct inputs in, int64_t fan_in, int64_t fan_out,
                           float *panel, float *part, float *grad)
{
    float *bias = grad + fan_in * fan_out, *total = part + count * fan_in;
    int64_t active = *in.count;
    struct factor h = {in.rows, fan_in, 0, 0, 0};
    NAME(product)(count, active, n, slope, row, 1, &h, panel, part, active);
    NAME(add_up)(n, count, slope, row, total);
    memset(grad, 0, sizeof(float) * (fan_in + 1) * fan_out);
    for (int64_t k = 0; k < count; k++) {
        int64_t unit = units ? units[k] : k;
        float *to = grad + unit * fan_in;
        for (int64_t j = 0; j < active; j++) to[in.units[j]] = part[k * active + j];
        bias[unit] = total[k];
    }
}

/* From the slope of the logits, d(loss)/d(logits), to d(loss)/d(w). */
void pfedfair_backward(const struct stack *stack, const float *w, int64_t w_row, float *saved,
                       const float *slope, float *grad, int64_t grad_row)
{
    int64_t n = stack->n, layers = stack->layers, outputs = stack->widths[layers], size = 0;
    int64_t deepest = n > stack->widest ? n : stack->widest;
    float *panel = stack->scratch, *slopes = panel + deepest * MOST_LANES;
    float *part = slopes + 2 * n * stack->widest;
    for (int64_t k = 0; k < layers; k++) size += (stack->widths[k] + 1) * stack->widths[k + 1];
    for (int64_t i = 0; i < stack->models; i++, saved += stack->saved) {
        const float *weight = w + i * w_row + size, *own = slope + i * n * outputs;
        float *to = grad + i * grad_row + size;
        const int32_t *units = 0;
        int64_t count = outputs, row = outputs;
        for (int64_t layer = layers; layer--;) {
            int64_t fan_in = stack->widths[layer], fan_out = stack->widths[layer + 1];
            struct inputs in = inputs_of(stack, saved, layer);
            weight -= (fan_in + 1) * fan_out;
            to -= (fan_in + 1) * fan_out;
            layer_gradient(n, own, row, count, units, in, fan_in, fan_out, panel, part, to);
            if (!layer) break;
            float *before = slopes + (layer % 2) * n * stack->widest;
            struct factor rows = {weight, fan_in, units, in.units, 0};
            NAME(product)(n, *in.count, count, own, row, 0, &rows, panel, before, fan_in);
            NAME(mask)(n, *in.count, in.rows, fan_in, before);
            own = before;
            row = fan_in;
            units = in.units;
            count = *in.count;
        }
    }
}
