// fmt, compiled once for all: other sources see declarations only, which saves each of them about 4 s
// (g++ 12). Distributions ship fmt's headers without the source file that does this, and what has to
// be instantiated differs from version to version; so its header-only form is compiled here, and
// src/base/CMakeLists.txt tells the compiler to keep every function of it.
#ifndef FMT_HEADER_ONLY
#define FMT_HEADER_ONLY 1
#endif
#include <fmt/format.h>
