/* The C interface as a C program uses it: every function, and every status that a caller can provoke. */
#define _POSIX_C_SOURCE 200809L

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libckpt/c_api.h"

static int failures = 0;
static ckpt_error* error = NULL; /* of the call that is being looked at */
static char folder[] = "/tmp/ckpt_c_api_XXXXXX";

static void expect(int holds, const char* what, int line) {
  if (holds) return;
  fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, line, what);
  ++failures;
}
#define EXPECT(condition) expect((condition) ? 1 : 0, #condition, __LINE__)

/* Returns the status and checks that an error object says the same, with `part` in its message. */
static ckpt_status refused(ckpt_status status, const char* part, int line) {
  expect(status != CKPT_OK, "the call fails", line);
  expect(ckpt_error_status(error) == status, "status and error agree", line);
  if (strstr(ckpt_error_message(error), part) == NULL) {
    fprintf(stderr, "%s:%d: '%s' lacks '%s'\n", __FILE__, line, ckpt_error_message(error), part);
    ++failures;
  }
  ckpt_error_free(error);
  error = NULL;
  return status;
}
#define REFUSED(call, part) refused(call, part, __LINE__)

static void done(ckpt_status status, int line) {
  if (status == CKPT_OK && error == NULL) return;
  fprintf(stderr, "%s:%d: %s\n", __FILE__, line, ckpt_error_message(error));
  exit(1);
}
#define DONE(call) done(call, __LINE__)

static const char* path_of(const char* name) {
  static char paths[4][256];
  static int next = 0;
  char* path = paths[next++ % 4];
  snprintf(path, sizeof paths[0], "%s/%s", folder, name);
  return path;
}

static ckpt_checkpoint* make_model(void) {
  const float weight[6] = {1, 2, 3, 4, 5, 6};
  const float bias[2] = {0.5F, -0.5F};
  const int64_t shape[2] = {2, 3};
  const int64_t two[1] = {2};
  ckpt_checkpoint* model = NULL;
  ckpt_builder* builder = ckpt_builder_new();
  DONE(ckpt_builder_add_tensor(builder, "module.fc.weight", "float32", 2, shape, weight, sizeof weight, &error));
  DONE(ckpt_builder_add_tensor(builder, "module.fc.bias", "f32", 1, two, bias, sizeof bias, &error));
  DONE(ckpt_builder_add_int(builder, "epoch", 3, &error));
  DONE(ckpt_builder_add_real(builder, "lr", 0.5, &error));
  DONE(ckpt_builder_add_text(builder, "note", "from C", &error));
  EXPECT(REFUSED(ckpt_builder_add_int(builder, "epoch", 4, &error), "'epoch'") == CKPT_COLLISION);
  EXPECT(REFUSED(ckpt_builder_add_tensor(builder, "x", "float33", 0, NULL, NULL, 0, &error), "float33") == CKPT_USAGE);
  EXPECT(REFUSED(ckpt_builder_add_tensor(builder, "x", "f32", 1, two, bias, 4, &error), "8 bytes, not 4") ==
         CKPT_USAGE);
  EXPECT(REFUSED(ckpt_builder_add_tensor(NULL, "x", "f32", 1, two, bias, 8, &error), "null") == CKPT_USAGE);
  DONE(ckpt_builder_finish(builder, &model, &error));
  ckpt_builder_free(builder);
  return model;
}

static void test_looking(const ckpt_checkpoint* model) {
  ckpt_tensor_info info = CKPT_TENSOR_INFO_INIT;
  size_t index = 99;
  float two[2];
  char* json = NULL;
  EXPECT(ckpt_tensor_count(model) == 2);
  DONE(ckpt_tensor_at(model, 0, &info, &error));
  EXPECT(strcmp(info.name, "module.fc.weight") == 0 && info.name_size == strlen(info.name));
  EXPECT(strcmp(info.dtype, "float32") == 0 && strcmp(info.location, "cpu") == 0);
  EXPECT(info.rank == 2 && info.shape[0] == 2 && info.shape[1] == 3);
  EXPECT(info.numel == 6 && info.bytes == 24 && info.tied_to == 0 && info.is_parameter == 0);
  DONE(ckpt_find_tensor(model, "module.fc.bias", &index, &error));
  EXPECT(index == 1);
  DONE(ckpt_read(model, 0, 4, two, sizeof two, &error));
  EXPECT(two[0] == 2 && two[1] == 3);
  DONE(ckpt_read(model, 0, 24, NULL, 0, &error));
  DONE(ckpt_values_json(model, &json, &error));
  EXPECT(strstr(json, "{\"name\":\"epoch\",\"type\":\"int\",\"value\":3}") != NULL);
  ckpt_text_free(json);
  DONE(ckpt_report_json(model, &json, &error));
  EXPECT(strcmp(json, "{\"warnings\":[],\"relaxations\":[],\"dropped\":[]}") == 0);
  ckpt_text_free(json);
  EXPECT(REFUSED(ckpt_tensor_at(model, 2, &info, &error), "2 of 2") == CKPT_USAGE);
  EXPECT(REFUSED(ckpt_find_tensor(model, "nope", &index, &error), "'nope'") == CKPT_KEY);
  EXPECT(REFUSED(ckpt_read(model, 0, 20, two, sizeof two, &error), "8 bytes at 20 of 24") == CKPT_USAGE);
  EXPECT(REFUSED(ckpt_read(model, 0, UINT64_MAX, two, sizeof two, &error), "fc.weight") == CKPT_USAGE);
  info.struct_size = 0;
  EXPECT(REFUSED(ckpt_tensor_at(model, 0, &info, &error), "no size") == CKPT_USAGE);
}

static void expect_first_name(const ckpt_checkpoint* checkpoint, const char* name, int line) {
  ckpt_tensor_info info = CKPT_TENSOR_INFO_INIT;
  expect(ckpt_tensor_at(checkpoint, 0, &info, NULL) == CKPT_OK && strcmp(info.name, name) == 0, name, line);
}

static void test_keys(const ckpt_checkpoint* model) {
  ckpt_checkpoint* plain = NULL;
  ckpt_checkpoint* other = NULL;
  ckpt_prefix_options options = CKPT_PREFIX_OPTIONS_INIT;
  const char* from[2] = {"fc.weight", "fc.bias"};
  const char* to[2] = {"head.w", "head.w"};
  DONE(ckpt_strip_prefix(model, NULL, &plain, &error));
  expect_first_name(plain, "fc.weight", __LINE__);
  options.prefix = "encoder.";
  DONE(ckpt_add_prefix(plain, &options, &other, &error));
  expect_first_name(other, "encoder.fc.weight", __LINE__);
  ckpt_close(other);
  EXPECT(REFUSED(ckpt_rename(plain, from, to, 2, &other, &error), "head.w") == CKPT_COLLISION);
  EXPECT(other == NULL);
  to[1] = "head.b";
  DONE(ckpt_rename(plain, from, to, 2, &other, &error));
  expect_first_name(other, "head.w", __LINE__);
  ckpt_close(other);
  EXPECT(REFUSED(ckpt_rename(model, from, to, 2, &other, &error), "fc.weight") == CKPT_KEY);
  options.at = "nowhere";
  EXPECT(REFUSED(ckpt_strip_prefix(model, &options, &other, &error), "nowhere") == CKPT_KEY);
  options.struct_size = 1;
  EXPECT(REFUSED(ckpt_strip_prefix(model, &options, &other, &error), "_INIT") == CKPT_USAGE);
  EXPECT(REFUSED(ckpt_strip_prefix(model, NULL, NULL, &error), "out is null") == CKPT_USAGE);
  ckpt_close(plain);
}

/* Options of a newer header: known fields count, unknown ones must be zero. */
static void test_versions(const ckpt_checkpoint* model) {
  struct {
    ckpt_prefix_options known;
    int added[4];
  } newer = {CKPT_PREFIX_OPTIONS_INIT, {0, 0, 0, 0}};
  ckpt_checkpoint* out = NULL;
  newer.known.struct_size = sizeof newer;
  DONE(ckpt_strip_prefix(model, &newer.known, &out, &error));
  ckpt_close(out);
  newer.added[3] = 1;
  EXPECT(REFUSED(ckpt_strip_prefix(model, &newer.known, &out, &error), "newer library") == CKPT_USAGE);
  EXPECT(ckpt_abi_version() >= CKPT_ABI_VERSION);
  EXPECT(strchr(ckpt_version(), '.') != NULL);
}

static void test_other_changes(const ckpt_checkpoint* model) {
  ckpt_checkpoint* out = NULL;
  ckpt_tensor_info info = CKPT_TENSOR_INFO_INIT;
  const char* gpu[1] = {"cuda:1"};
  const char* cpu[1] = {"cpu"};
  const char* biases[1] = {"*.bias"};
  char* json = NULL;
  DONE(ckpt_remap(model, NULL, gpu, 1, &out, &error));
  DONE(ckpt_tensor_at(out, 0, &info, &error));
  EXPECT(strcmp(info.location, "cuda:1") == 0);
  ckpt_close(out);
  DONE(ckpt_remap(model, cpu, gpu, 1, &out, &error));
  ckpt_close(out);
  gpu[0] = "no device!";
  EXPECT(REFUSED(ckpt_remap(model, NULL, gpu, 1, &out, &error), "no device!") == CKPT_USAGE);
  DONE(ckpt_select(model, biases, 1, NULL, 0, &out, &error));
  EXPECT(ckpt_tensor_count(out) == 1);
  ckpt_close(out);
  EXPECT(REFUSED(ckpt_select(model, gpu, 1, NULL, 0, &out, &error), "no device!") == CKPT_KEY);
  DONE(ckpt_set_metadata(model, "license", "MIT", &out, &error));
  DONE(ckpt_metadata_json(out, &json, &error));
  EXPECT(strcmp(json, "{\"license\":\"MIT\"}") == 0);
  ckpt_text_free(json);
  ckpt_close(out);
  EXPECT(REFUSED(ckpt_set_metadata(model, "license", NULL, &out, &error), "license") == CKPT_KEY);
}

static void test_rules_and_cast(const ckpt_checkpoint* model) {
  ckpt_checkpoint* out = NULL;
  ckpt_checkpoint* back = NULL;
  ckpt_tensor_info info = CKPT_TENSOR_INFO_INIT;
  const char* keep[1] = {"*.bias"};
  const char* rules = "[[rule]]\nrename = 'module.*'\nto = 'net.*'\n[[rule]]\ntranspose = '*.weight'\n";
  char* one = NULL;
  char* two = NULL;
  float values[2];
  int yes = 0;
  DONE(ckpt_cast(model, "bf16", keep, 1, &out, &error));
  DONE(ckpt_tensor_at(out, 0, &info, &error));
  EXPECT(strcmp(info.dtype, "bfloat16") == 0 && info.bytes == 12);
  DONE(ckpt_tensor_at(out, 1, &info, &error));
  EXPECT(strcmp(info.dtype, "float32") == 0);
  ckpt_close(out);
  EXPECT(REFUSED(ckpt_cast(model, "float33", NULL, 0, &out, &error), "float33") == CKPT_USAGE);
  DONE(ckpt_apply_rules(model, rules, 0, &out, &error));
  expect_first_name(out, "net.fc.weight", __LINE__);
  DONE(ckpt_read(out, 0, 0, values, sizeof values, &error));
  EXPECT(values[0] == 1 && values[1] == 4);
  DONE(ckpt_apply_rules(out, rules, 1, &back, &error));
  DONE(ckpt_diff(model, back, NULL, &yes, NULL, &error));
  EXPECT(yes == 1);
  DONE(ckpt_digest(model, &one, &error));
  DONE(ckpt_digest(back, &two, &error));
  EXPECT(strlen(one) == 32 && strcmp(one, two) == 0);
  ckpt_text_free(one);
  ckpt_text_free(two);
  ckpt_close(back);
  ckpt_close(out);
  EXPECT(REFUSED(ckpt_apply_rules(model, "[[rule]]\ndrop = '*'", 1, &out, &error), "drop") == CKPT_UNSUPPORTED);
  EXPECT(REFUSED(ckpt_apply_rules(model, "[[rule", 0, &out, &error), "the rules") == CKPT_CORRUPT);
}

static int stop(void* user, uint64_t finished, uint64_t total) {
  (void)finished;
  (void)total;
  ++*(int*)user;
  return 1;
}

/* The file carries "module.", the wanted model does not. */
static void test_why(const ckpt_checkpoint* model) {
  ckpt_checkpoint* plain = NULL;
  char* json = NULL;
  int yes = 1;
  DONE(ckpt_strip_prefix(model, NULL, &plain, &error));
  DONE(ckpt_why(path_of("net.pth"), plain, NULL, &yes, &json, &error));
  EXPECT(yes == 0 && strstr(json, "\"kind\":\"wrapper_prefix\"") != NULL);
  EXPECT(strstr(json, "\"fixable\":true") != NULL && strstr(json, "\"keys\":0,\"keys_after\":2") != NULL);
  ckpt_text_free(json);
  EXPECT(REFUSED(ckpt_why(path_of("no.pth"), plain, NULL, NULL, NULL, &error), "no.pth") == CKPT_IO);
  ckpt_close(plain);
}

/* Names that only a pack knows to be those of the model. */
static void test_rule_packs(const ckpt_checkpoint* model) {
  static const char* pack =
      "[about]\nfrom = 'ours'\nto = 'theirs'\nmodels = '*'\nfrom_key = 'module.fc.weight'\nto_key = 'head.matrix'\n"
      "[[rule]]\nrename = [['module.fc.weight', 'head.matrix'], ['module.fc.bias', 'head.offset']]\n";
  ckpt_checkpoint* wanted = NULL;
  char* json = NULL;
  DONE(ckpt_apply_rules(model,
                        "[[rule]]\nrename = [['module.fc.weight', 'head.matrix'], ['module.fc.bias', 'head.offset']]",
                        0, &wanted, &error));
  DONE(ckpt_add_rule_pack("ours", pack, &error));
  DONE(ckpt_why(path_of("net.pth"), wanted, NULL, NULL, &json, &error));
  EXPECT(strstr(json, "\"kind\":\"foreign_names\"") != NULL);
  ckpt_text_free(json);
  EXPECT(REFUSED(ckpt_add_rule_pack("bad", "[about]\nfrom = 'a'\n[[rule]]\ndrop = 'x'\n", &error), "'to'") ==
         CKPT_USAGE);
  EXPECT(REFUSED(ckpt_add_rule_pack(NULL, pack, &error), "name") == CKPT_USAGE);
  ckpt_close(wanted);
}

static void test_files(const ckpt_checkpoint* model) {
  ckpt_checkpoint* read = NULL;
  ckpt_save_options save = CKPT_SAVE_OPTIONS_INIT;
  ckpt_open_options open = CKPT_OPEN_OPTIONS_INIT;
  int yes = 0;
  int calls = 0;
  char* json = NULL;
  DONE(ckpt_save(model, path_of("net.pth"), NULL, &error));
  DONE(ckpt_open(path_of("net.pth"), &open, &read, &error));
  EXPECT(strcmp(ckpt_format_name(read), "torch-zip") == 0);
  DONE(ckpt_diff(model, read, NULL, &yes, &json, &error));
  EXPECT(yes == 1 && strstr(json, "\"equal\":true") != NULL);
  ckpt_text_free(json);
  save.keep_existing = 1;
  EXPECT(REFUSED(ckpt_save(read, path_of("net.pth"), &save, &error), "net.pth") == CKPT_IO);
  save.keep_existing = 0;
  save.codec = "lzma";
  EXPECT(REFUSED(ckpt_save(read, path_of("net.pth"), &save, &error), "lzma") == CKPT_USAGE);
  save.codec = NULL;
  EXPECT(REFUSED(ckpt_save(model, path_of("net.unknown"), &save, &error), "extension") == CKPT_USAGE);
  save.progress = stop;
  save.user = &calls;
  EXPECT(REFUSED(ckpt_save(model, path_of("stopped.pth"), &save, &error), "cancelled") == CKPT_CANCELLED);
  EXPECT(calls == 1 && access(path_of("stopped.pth"), F_OK) != 0);
  DONE(ckpt_verify(path_of("net.pth"), NULL, &yes, &json, &error));
  EXPECT(yes == 1 && strstr(json, "\"good\":true") != NULL);
  ckpt_text_free(json);
  DONE(ckpt_scan(path_of("net.pth"), NULL, &yes, &json, &error));
  EXPECT(yes == 1 && strstr(json, "\"clean\":true") != NULL && strstr(json, "torch._utils._rebuild_tensor_v2") != NULL);
  ckpt_text_free(json);
  test_why(model);
  test_rule_packs(model);
  ckpt_close(read);
}

static void test_bad_files(const ckpt_checkpoint* model) {
  ckpt_checkpoint* out = NULL;
  FILE* file = fopen(path_of("bad.pth"), "wb");
  fputs("PK\003\004 cut off", file);
  fclose(file);
  EXPECT(REFUSED(ckpt_open(path_of("bad.pth"), NULL, &out, &error), "bad.pth") == CKPT_CORRUPT);
  EXPECT(out == NULL);
  EXPECT(REFUSED(ckpt_open(path_of("no.pth"), NULL, &out, &error), "no.pth") == CKPT_IO);
  EXPECT(REFUSED(ckpt_save(model, path_of("net.safetensors"), NULL, &error), "epoch") == CKPT_UNSUPPORTED);
  EXPECT(REFUSED(ckpt_open(NULL, NULL, &out, &error), "path is null") == CKPT_USAGE);
  /* Null in every place where it is allowed. */
  EXPECT(ckpt_open(path_of("bad.pth"), NULL, &out, NULL) == CKPT_CORRUPT);
  EXPECT(ckpt_tensor_count(NULL) == 0 && strcmp(ckpt_format_name(NULL), "") == 0);
  EXPECT(ckpt_error_status(NULL) == CKPT_OK && strcmp(ckpt_error_message(NULL), "") == 0);
  ckpt_close(NULL);
  ckpt_error_free(NULL);
  ckpt_text_free(NULL);
  ckpt_builder_free(NULL);
}

/* Nobody is asked before remote files are enabled; port 1 of this machine answers nobody. */
static void test_addresses(void) {
  ckpt_checkpoint* out = NULL;
  ckpt_remote_options options = CKPT_REMOTE_OPTIONS_INIT;
  EXPECT(REFUSED(ckpt_open("http://127.0.0.1:1/a.pth", NULL, &out, &error), "127.0.0.1") == CKPT_UNSUPPORTED);
  options.struct_size = 1;
  EXPECT(REFUSED(ckpt_enable_remote_files(&options, &error), "_INIT") == CKPT_USAGE);
  DONE(ckpt_enable_remote_files(NULL, &error));
  EXPECT(REFUSED(ckpt_open("http://example.invalid/a.pth", NULL, &out, &error), "insecure_http") == CKPT_USAGE);
  EXPECT(REFUSED(ckpt_open("http://127.0.0.1:1/a.pth", NULL, &out, &error), "127.0.0.1:1") == CKPT_IO);
}

int main(void) {
  static const char* const kFiles[] = {"net.pth", "bad.pth"};
  ckpt_checkpoint* model;
  size_t i;
  if (mkdtemp(folder) == NULL) return 1;
  model = make_model();
  test_looking(model);
  test_keys(model);
  test_versions(model);
  test_other_changes(model);
  test_rules_and_cast(model);
  test_files(model);
  test_bad_files(model);
  test_addresses();
  ckpt_close(model);
  for (i = 0; i < sizeof kFiles / sizeof kFiles[0]; ++i) remove(path_of(kFiles[i]));
  EXPECT(rmdir(folder) == 0); /* nothing else was left behind */
  if (failures == 0) puts("the C interface holds");
  return failures == 0 ? 0 : 1;
}
