// NVIDIA's header, from outside the project; its functions are not used.
#include <nccl.h>
#define MAGIC_OF_A_CONFIG (ncclConfig_t NCCL_CONFIG_INITIALIZER).magic
#define SENNIT_FACTS nvidia_facts
#include "nccl/facts.inc"
