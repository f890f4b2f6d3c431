# What Horovod's build does beside what is needed, left out. Read by CMake 3.21 on.

# its own flags but for -g
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O2 -DNDEBUG" CACHE STRING "")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -DNDEBUG" CACHE STRING "")

# TensorFlow 1's wheel has the old C++ ABI and links a second gloo, built for it
get_property(trying GLOBAL PROPERTY IN_TRY_COMPILE)
if(NOT trying)
  cmake_language(DEFER CALL set_property TARGET gloo PROPERTY EXCLUDE_FROM_ALL TRUE)

  # Most of the time goes into the same headers: several files at once. Two of gloo's have the same
  # name in the same scope. What is built for GPUs was not tried so.
  if(NOT DEFINED ENV{HOROVOD_GPU_OPERATIONS})
    set(own third_party/compatible_gloo/gloo)
    cmake_language(DEFER CALL set_property TARGET tensorflow compatible_gloo PROPERTY UNITY_BUILD ON)
    cmake_language(DEFER CALL set_property SOURCE ${CMAKE_SOURCE_DIR}/${own}/allreduce_local.cc
                   DIRECTORY ${own} PROPERTY SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endif()
