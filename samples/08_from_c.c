/* The library from C: opens a file of any format, prints the mean of every float32 tensor, and saves it stripped of
 * "module.". usage: sample_from_c IN OUT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libckpt/c_api.h"

static int print_means(const ckpt_checkpoint* checkpoint, ckpt_error** error) {
  size_t i;
  for (i = 0; i < ckpt_tensor_count(checkpoint); ++i) {
    ckpt_tensor_info info = CKPT_TENSOR_INFO_INIT;
    double sum = 0;
    uint64_t k;
    float* values;
    if (ckpt_tensor_at(checkpoint, i, &info, error)) return 1;
    if (strcmp(info.dtype, "float32") != 0 || info.numel == 0) continue;
    values = malloc((size_t)info.bytes);
    if (values == NULL || ckpt_read(checkpoint, i, 0, values, (size_t)info.bytes, error)) {
      free(values);
      return 1;
    }
    for (k = 0; k < info.numel; ++k) sum += values[k];
    free(values);
    printf("%s: mean %.4f\n", info.name, sum / (double)info.numel);
  }
  return 0;
}

int main(int argc, char** argv) {
  ckpt_checkpoint* wrapped = NULL;
  ckpt_checkpoint* plain = NULL;
  ckpt_error* error = NULL;
  ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
  int failed;
  if (argc != 3) {
    fprintf(stderr, "usage: sample_from_c IN OUT\n");
    return 2;
  }
  options.keep_existing = 1; /* an existing OUT is an error */
  failed = ckpt_open(argv[1], NULL, &wrapped, &error) || ckpt_strip_prefix(wrapped, NULL, &plain, &error) ||
           print_means(plain, &error) || ckpt_save(plain, argv[2], &options, &error);
  if (failed) fprintf(stderr, "%s\n", ckpt_error_message(error));
  ckpt_error_free(error);
  ckpt_close(plain);
  ckpt_close(wrapped);
  return failed;
}
