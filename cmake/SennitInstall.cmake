# Installation: library, headers, pkg-config file, CMake package, the rank program.
