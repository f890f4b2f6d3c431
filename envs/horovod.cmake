# What Horovod's build does beside what is needed, left out. Read by CMake 3.21 on.

# its own flags but for -g
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O2 -DNDEBUG" CACHE STRING "")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -DNDEBUG" CACHE STRING "")

# TensorFlow 1's wheel has the old C++ ABI and links a second gloo, built for it
get_property(trying GLOBAL PROPERTY IN_TRY_COMPILE)
if(NOT trying)
  cmake_language(DEFER CALL set_property TARGET gloo PROPERTY EXCLUDE_FROM_ALL TRUE)
endif()
