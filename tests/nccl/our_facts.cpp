#include "nccl_abi.h"
#define SENNIT_FACTS our_facts
#include "nccl/facts.inc"
