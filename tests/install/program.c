/* A program of an outside user: C, found through pkg-config or the CMake package, nothing else. */
#include <sennit/sennit.h>
#include <sennit/tools.h>

#include <stdio.h>

int main(void) {
  const int expected =
      SENNIT_VERSION_MAJOR * 10000 + SENNIT_VERSION_MINOR * 100 + SENNIT_VERSION_PATCH;
  if (sennit_version() != expected) {
    fprintf(stderr, "header says %d, library says %d\n", expected, sennit_version());
    return 1;
  }
  puts(sennit_version_string());
  return 0;
}
