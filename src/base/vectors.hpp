// Code for processors with wider vectors than all of their kind have, chosen when it runs.
//
//   SENNIT_AVX2 void add_avx2(...) { ...a loop... }
//   void add(...) { has_avx2() ? add_avx2(...) : add_portable(...); }
#pragma once

#if defined(__x86_64__)
#define SENNIT_AVX2 __attribute__((target("avx2")))
#define SENNIT_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#else
// Such functions are there, and nobody calls them.
#define SENNIT_AVX2
#define SENNIT_AVX512
#endif

namespace sennit {

#if defined(__x86_64__)
inline bool is_intel() { return __builtin_cpu_is("intel") != 0; }
inline bool has_avx2() { return __builtin_cpu_supports("avx2") != 0; }
inline bool has_avx512() {
  return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
         __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
}
#else
inline bool is_intel() { return false; }
inline bool has_avx2() { return false; }
inline bool has_avx512() { return false; }
#endif

}  // namespace sennit
