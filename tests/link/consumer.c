/* A program as a C user writes it, against the installed tree: strips a .pth. usage: consumer IN.pth OUT.safetensors */
#include <libckpt/c_api.h>
#include <stdio.h>

int main(int argc, char** argv) {
  ckpt_checkpoint* wrapped = NULL;
  ckpt_checkpoint* plain = NULL;
  ckpt_error* error = NULL;
  ckpt_status status;
  if (argc != 3) return 2;
  status = ckpt_open(argv[1], NULL, &wrapped, &error);
  if (status == CKPT_OK) status = ckpt_strip_prefix(wrapped, NULL, &plain, &error);
  if (status == CKPT_OK) status = ckpt_save(plain, argv[2], NULL, &error);
  if (status != CKPT_OK) fprintf(stderr, "%s\n", ckpt_error_message(error));
  if (status == CKPT_OK) printf("%zu tensors\n", ckpt_tensor_count(plain));
  ckpt_error_free(error);
  ckpt_close(plain);
  ckpt_close(wrapped);
  return (int)status;
}
