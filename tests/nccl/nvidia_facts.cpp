// NVIDIA's header, from outside the project; its functions are not used.
#include <nccl.h>
#define SENNIT_FACTS nvidia_facts
#include "nccl/facts.inc"
