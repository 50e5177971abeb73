#ifndef LIBCKPT_C_API_H
#define LIBCKPT_C_API_H
/* The file side of the library for C and for every language that can call C: open, look, change, compare, save.
 *
 * Handles are opaque. No exception and no longjmp crosses this interface. Every call that can fail returns a status and
 * fills `error` (which may be null) with an object that says what is wrong; release it with ckpt_error_free(). Options
 * begin with their own size, so that a program built against an older header keeps working: use the _INIT macros.
 * A null options pointer means the defaults. Text is UTF-8, also paths.
 *
 * Threads: a checkpoint never changes once it is there; any number of threads may read it. One handle is closed once,
 * when nobody uses it any more. Errors and texts belong to whoever received them.
 *
 * Use:
 *   ckpt_checkpoint* wrapped = NULL;
 *   ckpt_checkpoint* plain = NULL;
 *   ckpt_error* error = NULL;
 *   if (ckpt_open("best.pth", NULL, &wrapped, &error) || ckpt_strip_prefix(wrapped, NULL, &plain, &error) ||
 *       ckpt_save(plain, "plain.safetensors", NULL, &error)) fprintf(stderr, "%s\n", ckpt_error_message(error));
 *   ckpt_error_free(error); ckpt_close(plain); ckpt_close(wrapped);
 */

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define CKPT_API __attribute__((visibility("default")))
#else
#define CKPT_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Grows when something is added; what is there never changes. */
#define CKPT_ABI_VERSION 2

/* Of the library that runs, which may be newer than this header. */
CKPT_API uint32_t ckpt_abi_version(void);
/* "0.1.0". */
CKPT_API const char* ckpt_version(void);

/* ---- Errors ------------------------------------------------------------------------------------------------------ */

typedef enum ckpt_status {
  CKPT_OK = 0,
  CKPT_USAGE = 1,       /* the caller asked for something that makes no sense; also a null argument */
  CKPT_CORRUPT = 2,     /* the bytes contradict themselves or are cut off */
  CKPT_REFUSED = 3,     /* well-formed, but outside what is accepted: a foreign pickle global, a limit */
  CKPT_UNSUPPORTED = 4, /* known, but not handled: a format, a dtype that the target cannot hold */
  CKPT_COLLISION = 5,   /* two keys, or two files, would become one */
  CKPT_KEY = 6,         /* there is no such key */
  CKPT_VALUE = 7,       /* a value out of its range */
  CKPT_IO = 8,          /* the operating system said no */
  CKPT_CANCELLED = 9,   /* a progress callback said so */
  CKPT_NO_MEMORY = 10,
  CKPT_INTERNAL = 11 /* a bug of the library */
} ckpt_status;

typedef struct ckpt_error ckpt_error;

/* CKPT_OK for null. */
CKPT_API ckpt_status ckpt_error_status(const ckpt_error* error);
/* "best.pth: what is wrong; what to do"; "" for null. Valid as long as the error. */
CKPT_API const char* ckpt_error_message(const ckpt_error* error);
/* Null is allowed. */
CKPT_API void ckpt_error_free(ckpt_error* error);

/* Releases a text that a function returned. Null is allowed. */
CKPT_API void ckpt_text_free(char* text);

/* ---- Opening and looking ----------------------------------------------------------------------------------------- */

typedef struct ckpt_checkpoint ckpt_checkpoint;

typedef struct ckpt_open_options {
  size_t struct_size;
  int lenient;         /* accept the named relaxations of FORMAT_SUPPORT.md; each used one is in ckpt_report_json() */
  int foreign_objects; /* keep unknown pickle globals as inert data instead of refusing the file */
  int check_hashes;    /* check content hashes while tensors are read, where the format has them */
  uint32_t threads;    /* 0: one per core */
  int unsandboxed;     /* read HDF5 files even where the helper program cannot be sandboxed */
} ckpt_open_options;
#define CKPT_OPEN_OPTIONS_INIT \
  { sizeof(ckpt_open_options), 0, 0, 0, 0, 0 }

/* Reads the structure of a file of any known format, found by content; tensors stay in the file. Errors: CKPT_IO,
 * CKPT_CORRUPT, CKPT_REFUSED, CKPT_UNSUPPORTED, with the path in the message. */
CKPT_API ckpt_status ckpt_open(const char* path, const ckpt_open_options* options, ckpt_checkpoint** out,
                               ckpt_error** error);
/* Null is allowed. Checkpoints made from this one stay valid. */
CKPT_API void ckpt_close(ckpt_checkpoint* checkpoint);

/* "torch-zip", "safetensors", "native", ... Valid as long as the checkpoint; "" for null. */
CKPT_API const char* ckpt_format_name(const ckpt_checkpoint* checkpoint);
/* Tensors, also those inside nested dicts and lists; 0 for null. */
CKPT_API size_t ckpt_tensor_count(const ckpt_checkpoint* checkpoint);

typedef struct ckpt_tensor_info {
  size_t struct_size;   /* set it before the call */
  const char* name;     /* dotted: "model.fc.weight"; all pointers are valid as long as the checkpoint */
  size_t name_size;     /* bytes; a name may contain NUL */
  const char* dtype;    /* PyTorch's name: "float32", "bfloat16", "bool" */
  const char* location; /* device tag: "cpu", "cuda:1" */
  size_t rank;
  const int64_t* shape; /* of length rank */
  uint64_t numel;
  uint64_t bytes;   /* of the values: contiguous, row-major, little-endian; 0 for a tensor on "meta" */
  size_t tied_to;   /* index of the first tensor that shares this one's memory; its own index when none does */
  int is_parameter; /* saved as torch.nn.Parameter */
} ckpt_tensor_info;
#define CKPT_TENSOR_INFO_INIT \
  { sizeof(ckpt_tensor_info), NULL, 0, NULL, NULL, 0, NULL, 0, 0, 0, 0 }

/* Errors: CKPT_USAGE for an index past the end. */
CKPT_API ckpt_status ckpt_tensor_at(const ckpt_checkpoint* checkpoint, size_t index, ckpt_tensor_info* info,
                                    ckpt_error** error);
/* Index of the tensor of this name. Errors: CKPT_KEY. */
CKPT_API ckpt_status ckpt_find_tensor(const ckpt_checkpoint* checkpoint, const char* name, size_t* index,
                                      ckpt_error** error);
/* Fills `buffer` with `size` bytes of the tensor's values from `offset` on. Nothing is cached. Errors: CKPT_USAGE past
 * the end; CKPT_IO, CKPT_CORRUPT from the file. */
CKPT_API ckpt_status ckpt_read(const ckpt_checkpoint* checkpoint, size_t index, uint64_t offset, void* buffer,
                               size_t size, ckpt_error** error);

/* The plain values (epochs, learning rates) as JSON: [{"name": "epoch", "type": "int", "value": 3}, ...]. */
CKPT_API ckpt_status ckpt_values_json(const ckpt_checkpoint* checkpoint, char** json, ckpt_error** error);
/* The file-level metadata as a JSON object of texts. */
CKPT_API ckpt_status ckpt_metadata_json(const ckpt_checkpoint* checkpoint, char** json, ckpt_error** error);
/* What was noticed while opening or changing it: {"warnings": [...], "relaxations": [...], "dropped": [...]}. */
CKPT_API ckpt_status ckpt_report_json(const ckpt_checkpoint* checkpoint, char** json, ckpt_error** error);

/* ---- Files on other machines ------------------------------------------------------------------------------------- */

typedef struct ckpt_remote_options {
  size_t struct_size;
  int insecure_http;   /* also http:// to other machines; to this machine it is always allowed */
  const char* ca_file; /* certificates (PEM) to trust in place of the system's; null: those */
  const char* hub;     /* where hf:// leads; null: $HF_ENDPOINT, else https://huggingface.co */
  uint64_t max_memory; /* bytes: half for what is kept, half for what is on its way; 0: 128 MiB */
} ckpt_remote_options;
#define CKPT_REMOTE_OPTIONS_INIT \
  { sizeof(ckpt_remote_options), 0, NULL, NULL, 0 }

/* From here on every call that opens a file takes "https://host/net.safetensors" and "hf://org/repo[@revision][/file]".
 * Only what is asked for is fetched; libcurl is opened at the first request. Call it before other threads open files; a
 * second call replaces the options. Since ABI version 2. Errors: CKPT_USAGE. */
CKPT_API ckpt_status ckpt_enable_remote_files(const ckpt_remote_options* options, ckpt_error** error);

/* ---- Changing: each makes a new checkpoint and leaves the old one; no tensor is read -------------------------------
 */

typedef struct ckpt_prefix_options {
  size_t struct_size;
  const char* prefix; /* whole dotted components; null: "module." */
  const char* at;     /* dotted path of the one dict to act on; null: all (strip) or the only one (add) */
  int repeat;         /* strip: again while a key still begins with it */
  int wrappers;       /* strip: what known wrappers add, at any depth, instead of `prefix` */
} ckpt_prefix_options;
#define CKPT_PREFIX_OPTIONS_INIT \
  { sizeof(ckpt_prefix_options), NULL, NULL, 0, 0 }

/* Errors: CKPT_COLLISION naming both keys that would become one, CKPT_REFUSED for a key that is only the prefix,
 * CKPT_KEY when `at` names nothing, CKPT_USAGE. */
CKPT_API ckpt_status ckpt_strip_prefix(const ckpt_checkpoint* checkpoint, const ckpt_prefix_options* options,
                                       ckpt_checkpoint** out, ckpt_error** error);
/* Errors: CKPT_USAGE listing the candidates when there are several state dicts, CKPT_KEY when there is none. */
CKPT_API ckpt_status ckpt_add_prefix(const ckpt_checkpoint* checkpoint, const ckpt_prefix_options* options,
                                     ckpt_checkpoint** out, ckpt_error** error);
/* New names for `count` keys, all at once, so that a swap works. Errors: CKPT_KEY listing the names that are not there,
 * CKPT_COLLISION, CKPT_USAGE for an old name given twice. */
CKPT_API ckpt_status ckpt_rename(const ckpt_checkpoint* checkpoint, const char* const* from, const char* const* to,
                                 size_t count, ckpt_checkpoint** out, ckpt_error** error);
/* Device tags: `count` old tags to new ones, or all to to[0] when `from` is null (and count 1). Errors: CKPT_USAGE for
 * a tag that is not a device. */
CKPT_API ckpt_status ckpt_remap(const ckpt_checkpoint* checkpoint, const char* const* from, const char* const* to,
                                size_t count, ckpt_checkpoint** out, ckpt_error** error);
/* Part of it by selectors (globs, "re:...", "@dtype=bf16"). Errors: CKPT_KEY for a selector that matches nothing, or
 * when nothing is left, CKPT_USAGE. */
CKPT_API ckpt_status ckpt_select(const ckpt_checkpoint* checkpoint, const char* const* include, size_t include_count,
                                 const char* const* exclude, size_t exclude_count, ckpt_checkpoint** out,
                                 ckpt_error** error);
/* Sets a text of the file-level metadata; null removes the key. Errors: CKPT_KEY when there is none to remove. */
CKPT_API ckpt_status ckpt_set_metadata(const ckpt_checkpoint* checkpoint, const char* key, const char* text,
                                       ckpt_checkpoint** out, ckpt_error** error);

/* Every tensor of a float type (and of the others, where the target is of their kind) in another dtype, rounded as
 * PyTorch does, when its bytes are read. `keep` are selectors of tensors that stay as they are. Errors:
 * CKPT_UNSUPPORTED for a type that cannot be cast, CKPT_USAGE for an unknown one. */
CKPT_API ckpt_status ckpt_cast(const ckpt_checkpoint* checkpoint, const char* dtype, const char* const* keep,
                               size_t keep_count, ckpt_checkpoint** out, ckpt_error** error);
/* Applies rules (TOML or JSON text: rename, drop, transpose, reshape, split, fuse, cast, tie); backwards when
 * `reversed` is not 0. Errors: CKPT_CORRUPT or CKPT_USAGE naming the line or rule, CKPT_COLLISION, CKPT_KEY,
 * CKPT_VALUE; CKPT_UNSUPPORTED for rules that have no inverse. */
CKPT_API ckpt_status ckpt_apply_rules(const ckpt_checkpoint* checkpoint, const char* rules, int reversed,
                                      ckpt_checkpoint** out, ckpt_error** error);

/* ---- Making one from memory ----------------------------------------------------------------------------------------
 */

typedef struct ckpt_builder ckpt_builder;

/* Null when there is no memory. */
CKPT_API ckpt_builder* ckpt_builder_new(void);
/* Null is allowed. */
CKPT_API void ckpt_builder_free(ckpt_builder* builder);
/* Adds a tensor on the CPU behind the others; `data` is contiguous, row-major, little-endian and copied. Errors:
 * CKPT_USAGE for an unknown dtype, a negative dimension, or a size that is not that of the shape; CKPT_COLLISION for a
 * key that is there. */
CKPT_API ckpt_status ckpt_builder_add_tensor(ckpt_builder* builder, const char* key, const char* dtype, size_t rank,
                                             const int64_t* shape, const void* data, size_t size, ckpt_error** error);
/* Plain values under a key of their own. Errors: CKPT_COLLISION. */
CKPT_API ckpt_status ckpt_builder_add_int(ckpt_builder* builder, const char* key, int64_t value, ckpt_error** error);
CKPT_API ckpt_status ckpt_builder_add_real(ckpt_builder* builder, const char* key, double value, ckpt_error** error);
CKPT_API ckpt_status ckpt_builder_add_text(ckpt_builder* builder, const char* key, const char* text,
                                           ckpt_error** error);
/* The checkpoint of all that was added; the builder is empty again. */
CKPT_API ckpt_status ckpt_builder_finish(ckpt_builder* builder, ckpt_checkpoint** out, ckpt_error** error);

/* ---- Saving, checking, comparing -----------------------------------------------------------------------------------
 */

/* Called now and then with bytes done and in all; anything but 0 stops the work with CKPT_CANCELLED, and nothing is
 * left behind. */
typedef int (*ckpt_progress)(void* user, uint64_t done, uint64_t total);

typedef struct ckpt_save_options {
  size_t struct_size;
  const char* format;      /* null: by the file name's extension */
  int keep_existing;       /* CKPT_IO when the target exists, instead of replacing it */
  int not_durable;         /* no fsync: faster, atomic against a killed process only */
  int drop_inexpressible;  /* leave out what the format cannot hold instead of CKPT_UNSUPPORTED */
  const char* codec;       /* null: the format's choice; "none", "zstd", "gzip", "fast" (.ckpt) */
  uint64_t max_shard_size; /* bytes a file; 0: one file */
  uint64_t max_memory;     /* bytes of buffers; 0: 256 MiB */
  uint32_t threads;        /* 0: one per core */
  ckpt_progress progress;  /* null: none */
  void* user;              /* handed to `progress` */
} ckpt_save_options;
#define CKPT_SAVE_OPTIONS_INIT \
  { sizeof(ckpt_save_options), NULL, 0, 0, 0, NULL, 0, 0, 0, NULL, NULL }

/* Writes it to a temporary file beside the target, makes it durable and renames: a reader sees the old file or the new
 * one, whole. The target may be the file it was opened from. Errors: CKPT_UNSUPPORTED listing what the format cannot
 * hold, before a byte is written; CKPT_IO; CKPT_USAGE when the name says no format; CKPT_CANCELLED. */
CKPT_API ckpt_status ckpt_save(const ckpt_checkpoint* checkpoint, const char* path, const ckpt_save_options* options,
                               ckpt_error** error);

/* Reads every byte of a file and compares it with what the file says about itself. `good` (may be null) is 1 or 0;
 * `json` (may be null) becomes {"good":, "method":, "checksums":, "damage": [...], "notes": [...], ...}; "checksums" is
 * "all", "some", "absent" (the file was written without) or "none" (the format has none): where there are none, damage
 * that leaves the structure whole is not found. Errors: as ckpt_open(). */
CKPT_API ckpt_status ckpt_verify(const char* path, const ckpt_open_options* options, int* good, char** json,
                                 ckpt_error** error);

typedef struct ckpt_diff_options {
  size_t struct_size;
  int order;     /* the order of the tensors counts */
  int metadata;  /* file-level metadata and module versions count */
  int locations; /* device tags count */
} ckpt_diff_options;
#define CKPT_DIFF_OPTIONS_INIT \
  { sizeof(ckpt_diff_options), 0, 0, 0 }

/* Compares two checkpoints of any formats, bit for bit. `equal` (may be null) is 1 or 0; `json` (may be null) becomes
 * {"equal":, "tensors_compared":, "differences": [{"kind":, "name":, "a":, "b":}, ...], ...}. Errors: those of reading,
 * with the key in the message. */
CKPT_API ckpt_status ckpt_diff(const ckpt_checkpoint* a, const ckpt_checkpoint* b, const ckpt_diff_options* options,
                               int* equal, char** json, ckpt_error** error);

/* The digest of all tensors, 32 hexadecimal digits: the same in every format, order, sharding and compression. Errors:
 * those of reading. */
CKPT_API ckpt_status ckpt_digest(const ckpt_checkpoint* checkpoint, char** hex, ckpt_error** error);

/* What a file could make a program do that loads it; nothing is executed. `clean` (may be null) is 1 only when all was
 * read and nothing found; `json` (may be null) becomes {"clean":, "complete":, "content":, "symbols": [{"name":,
 * "verdict":, "calls":}, ...], "findings": [...], "unread": [...]}. Errors: CKPT_IO; CKPT_UNSUPPORTED for a folder that
 * is no model. */
CKPT_API ckpt_status ckpt_scan(const char* path, const ckpt_open_options* options, int* clean, char** json,
                               ckpt_error** error);

/* Why a file does not load: into the model whose checkpoint `wanted` is (may be null), or with this error message
 * (`error_text`, may be null). `loads` (may be null) is 1 when nothing is in the way; `json` (may be null) becomes
 * {"loads":, "fixable":, "description":, "causes": [{"kind":, "text":}, ...], "fix": ["strip 'module.'", ...], "keys":,
 * "keys_after":, "wanted":}. Errors: CKPT_IO only; whatever else is wrong with the file is the answer. */
CKPT_API ckpt_status ckpt_why(const char* path, const ckpt_checkpoint* wanted, const char* error_text, int* loads,
                              char** json, ckpt_error** error);

/* Rules between the names of two projects, which every ckpt_why() of this process tries from then on: the text that
 * `ckpt zoo rules timm-vit --toml` prints, under this name. A name that was there before gets the new rules. Errors:
 * CKPT_USAGE naming the field that is wrong or missing; CKPT_CORRUPT for a text that is no TOML or holds no rules. */
CKPT_API ckpt_status ckpt_add_rule_pack(const char* name, const char* toml, ckpt_error** error);

#ifdef __cplusplus
}
#endif

#endif
