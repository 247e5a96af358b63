// fmt, compiled once for all: other sources see declarations only, which saves each of them 4 s
// with g++ 12. Distributions ship fmt's headers without the source file that does this, and what
// must be instantiated differs from version to version; so the header-only form is compiled here,
// and src/base/CMakeLists.txt makes the compiler keep every function of it.
#ifndef FMT_HEADER_ONLY
#define FMT_HEADER_ONLY 1
#endif
#include <fmt/format.h>
