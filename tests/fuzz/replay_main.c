/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a harness without a fuzzing engine: over each file given (folders: the files in them), over each prefix of it
 * (what a connection that breaks leaves behind), and over mutations of it. These are drawn from the file's own bytes,
 * so every run does the same.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_FILE = 1 << 20, MAX_PREFIXES = 2000, MUTATIONS = 400 };

static unsigned long runs;
static unsigned long inputs;

/* Exactly as large as the input, so that AddressSanitizer sees the first byte read behind it. */
static void run(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size == 0 ? 1 : size);

    if (copy == NULL)
        exit(1);
    if (size > 0)
        memcpy(copy, data, size);
    (void)LLVMFuzzerTestOneInput(copy, size);
    free(copy);
    runs++;
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void mutate(uint8_t *data, size_t *size, uint64_t *state)
{
    uint64_t r = next_random(state);
    size_t at = (size_t)(r >> 8) % *size;
    size_t n = 1 + (size_t)(r >> 40) % 8;

    switch (r % 5) {
    case 0:
        data[at] = (uint8_t)(r >> 32);
        break;
    case 1:
        data[at] ^= (uint8_t)(1u << (r >> 32 & 7));
        break;
    case 2: /* a byte that means something somewhere */
        data[at] = (uint8_t) "\r\n \t:;,=/%?&#\"\\{}[]-+.0\x00\x7f\xff"[(r >> 32) % 27];
        break;
    case 3: /* a piece is lost */
        if (n > *size - at)
            n = *size - at;
        memmove(data + at, data + at + n, *size - at - n);
        *size -= n;
        break;
    default: /* a piece comes twice */
        if (n > *size - at)
            n = *size - at;
        memmove(data + at + n, data + at, *size - at);
        *size += n;
    }
}

static void run_all(const uint8_t *data, size_t size)
{
    size_t prefixes = size < MAX_PREFIXES ? size : MAX_PREFIXES;
    uint64_t state = 0x9e3779b97f4a7c15u;
    uint8_t *work = malloc(size + 64);

    if (work == NULL)
        exit(1);
    run(data, size);
    for (size_t n = 0; n < prefixes; n++)
        run(data, n);
    for (size_t i = 0; i < size; i++)
        state = state * 31 + data[i] + 1;
    for (int i = 0; i < MUTATIONS && size > 0; i++) {
        size_t n = size;

        memcpy(work, data, size);
        for (uint64_t k = 0; k <= (unsigned)i % 4 && n > 0; k++)
            mutate(work, &n, &state);
        run(work, n);
    }
    free(work);
    inputs++;
}

static void run_file(const char *path)
{
    uint8_t *data = malloc(MAX_FILE);
    FILE *f = fopen(path, "rb");

    if (data == NULL || f == NULL) {
        fprintf(stderr, "cannot read %s\n", path);
        exit(1);
    }
    printf("# %s\n", path);
    fflush(stdout); /* the last line names the culprit of a crash */
    run_all(data, fread(data, 1, MAX_FILE, f));
    fclose(f);
    free(data);
}

static void run_folder(const char *path)
{
    struct dirent **names;
    int n = scandir(path, &names, NULL, alphasort);

    for (int i = 0; i < n; i++) {
        char file[4096];

        if (names[i]->d_name[0] != '.') {
            snprintf(file, sizeof(file), "%s/%s", path, names[i]->d_name);
            run_file(file);
        }
        free(names[i]);
    }
    if (n >= 0)
        free(names);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        struct stat st;

        if (stat(argv[i], &st) == 0 && S_ISDIR(st.st_mode))
            run_folder(argv[i]);
        else
            run_file(argv[i]);
    }
    printf("# %lu inputs, %lu runs\n", inputs, runs);
    return inputs > 0 ? 0 : 1;
}
