/* A C11 program against the public headers and the shared library alone. Sizes, offsets and values
 * here are what programs have been compiled with: a change breaks them. Structs may grow, and then
 * their sizes change here too; nothing else may. */
#include "sennit/sennit.h"
#include "sennit/tools.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define IS(expression, number) _Static_assert((expression) == (number), #expression)

IS(sizeof(sennit_status_t), 4);
IS(sizeof(sennit_dtype_t), 4);
IS(sizeof(sennit_redop_t), 4);
IS(sizeof(sennit_unique_id_t), 128);
IS(sizeof(sennit_comm_t), sizeof(void*));
IS(sizeof(sennit_work_t), sizeof(void*));

IS(sizeof(sennit_error_t), 128);
IS(offsetof(sennit_error_t, struct_size), 0);
IS(offsetof(sennit_error_t, status), 8);
IS(offsetof(sennit_error_t, message), 16);
IS(offsetof(sennit_error_t, sequence), 40);
IS(offsetof(sennit_error_t, root), 72);
IS(offsetof(sennit_error_t, blamed_ranks), 88);
IS(offsetof(sennit_error_t, evidence), 104);
IS(offsetof(sennit_error_t, next), 120);

IS(sizeof(sennit_config_t), 136);
IS(offsetof(sennit_config_t, name), 8);
IS(offsetof(sennit_config_t, deadline_s), 24);
IS(offsetof(sennit_config_t, slot_bytes), 40);
IS(offsetof(sennit_config_t, non_blocking), 56);
IS(offsetof(sennit_config_t, reproducible), 60);
IS(offsetof(sennit_config_t, codec), 120);
IS(offsetof(sennit_config_t, device_blocks), 128);

IS(sizeof(sennit_call_options_t), 96);
IS(offsetof(sennit_call_options_t, algorithm), 8);
IS(offsetof(sennit_call_options_t, tile_bytes), 32);
IS(offsetof(sennit_call_options_t, work), 48);
IS(offsetof(sennit_call_options_t, reproducible), 56);
IS(offsetof(sennit_call_options_t, codec), 64);
IS(offsetof(sennit_call_options_t, tag), 72);
IS(offsetof(sennit_call_options_t, rms_norm), 80);
IS(offsetof(sennit_call_options_t, device_blocks), 88);

IS(sizeof(sennit_rms_norm_t), 56);
IS(offsetof(sennit_rms_norm_t, row_elements), 8);
IS(offsetof(sennit_rms_norm_t, epsilon), 16);
IS(offsetof(sennit_rms_norm_t, residual), 24);
IS(offsetof(sennit_rms_norm_t, scale), 48);

IS(SENNIT_OK, 0);
IS(SENNIT_IN_PROGRESS, 1);
IS(SENNIT_INVALID_ARGUMENT, 2);
IS(SENNIT_INVALID_USAGE, 3);
IS(SENNIT_UNSUPPORTED, 4);
IS(SENNIT_MISMATCH, 5);
IS(SENNIT_RANK_FAILED, 6);
IS(SENNIT_DEADLINE_EXCEEDED, 7);
IS(SENNIT_JOIN_TIMEOUT, 8);
IS(SENNIT_ABORTED, 9);
IS(SENNIT_NOT_PROVED, 10);
IS(SENNIT_SYSTEM_ERROR, 11);
IS(SENNIT_INTERNAL_ERROR, 12);

IS(SENNIT_FLOAT32, 0);
IS(SENNIT_FLOAT64, 1);
IS(SENNIT_INT32, 2);
IS(SENNIT_INT64, 3);
IS(SENNIT_UINT8, 4);

IS(SENNIT_SUM, 0);
IS(SENNIT_MIN, 2);
IS(SENNIT_MAX, 3);
IS(SENNIT_REDOP_CUSTOM_FIRST, 1024);

enum { kRanks = 3, kCount = 1000 };

static int fail(const char* what) {
  printf("%s: %s\n", what, sennit_last_error_message());
  return 1;
}

static int all_reduce(const sennit_comm_t* comms, const sennit_call_options_t* options) {
  static double data[kRanks][kCount];
  for (int rank = 0; rank < kRanks; ++rank) {
    for (int i = 0; i < kCount; ++i) {
      data[rank][i] = rank + i;
    }
  }
  sennit_group_start();
  for (int rank = 0; rank < kRanks; ++rank) {
    sennit_all_reduce(
        data[rank], data[rank], kCount, SENNIT_FLOAT64, SENNIT_SUM, comms[rank], NULL, options);
  }
  if (sennit_group_end() != SENNIT_OK) {
    return fail("all_reduce");
  }
  for (int rank = 0; rank < kRanks; ++rank) {
    for (int i = 0; i < kCount; ++i) {
      if (data[rank][i] != 3 + 3 * i) {
        printf("rank %d element %d is %g\n", rank, i, data[rank][i]);
        return 1;
      }
    }
  }
  return 0;
}

/* A program of an older header has shorter structs: only their first fields exist. */
static int call_with_short_options(const sennit_comm_t* comms) {
  struct {
    size_t struct_size;
    const char* algorithm;
  } old = {sizeof(old), "ring"};
  sennit_call_options_t options;
  memset(&options, 0xff, sizeof(options));
  memcpy(&options, &old, sizeof(old));
  return all_reduce(comms, &options);
}

static int last_error_has_its_fields(void) {
  sennit_error_t error = SENNIT_ERROR_INITIALIZER;
  if (sennit_barrier(NULL, NULL, NULL) != SENNIT_INVALID_ARGUMENT ||
      sennit_last_error(&error) != SENNIT_OK || error.status != SENNIT_INVALID_ARGUMENT ||
      strlen(error.message) == 0) {
    return fail("last_error");
  }
  return 0;
}

int main(void) {
  const int header =
      SENNIT_VERSION_MAJOR * 10000 + SENNIT_VERSION_MINOR * 100 + SENNIT_VERSION_PATCH;
  if (sennit_version() != header) {
    printf("header %d, library %d\n", header, sennit_version());
    return 1;
  }
  sennit_comm_t comms[kRanks] = {NULL};
  sennit_config_t config = SENNIT_CONFIG_INITIALIZER;
  if (sennit_comm_init_all(comms, kRanks, NULL, &config) != SENNIT_OK) {
    return fail("init_all");
  }
  const sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
  if (all_reduce(comms, NULL) || all_reduce(comms, &options) || call_with_short_options(comms) ||
      last_error_has_its_fields()) {
    return 1;
  }
  for (int rank = 0; rank < kRanks; ++rank) {
    if (sennit_comm_destroy(comms[rank]) != SENNIT_OK) {
      return fail("destroy");
    }
  }
  char* answer = NULL;
  if (sennit_tool_info("{}", &answer) != SENNIT_OK || strstr(answer, "\"version\"") == NULL) {
    return fail("tool_info");
  }
  sennit_tool_free(answer);
  puts("ok");
  return 0;
}
