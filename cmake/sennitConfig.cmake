include("${CMAKE_CURRENT_LIST_DIR}/sennitTargets.cmake")
