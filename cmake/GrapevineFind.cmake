# Every third-party library, found in one place. Required ones are named together when they are missing; for the
# optional ones a table at the end of the configuration says what their absence leaves out.
set(GRAPEVINE_LIBTORCH "" CACHE STRING
  "a folder that holds torch/lib and torch/include (default: .deps/libtorch), or none")

function(grapevine_found name value consequence)
  string(LENGTH "${name}" length)
  math(EXPR pad "16 - ${length}")
  string(REPEAT " " ${pad} space)
  if(value)
    set(line "  ${name}${space}${value}")
  else()
    set(line "  ${name}${space}not found: ${consequence}")
  endif()
  set_property(GLOBAL APPEND PROPERTY grapevine_found_lines "${line}")
endfunction()

function(grapevine_print_findings)
  get_property(lines GLOBAL PROPERTY grapevine_found_lines)
  list(JOIN lines "\n" table)
  message(STATUS "Grapevine ${PROJECT_VERSION}, ${CMAKE_BUILD_TYPE}, found:\n${table}")
endfunction()

set(missing "")
macro(grapevine_require name package)
  if(${ARGN})
    grapevine_found(${name} "yes" "")
  else()
    list(APPEND missing "${name} (Debian: ${package})")
  endif()
endmacro()

find_package(Threads REQUIRED)
find_package(ZLIB)
grapevine_require(zlib zlib1g-dev ZLIB_FOUND)
find_package(LibLZMA)
grapevine_require(liblzma liblzma-dev LIBLZMA_FOUND)
find_path(ZIP_INCLUDE zip.h)
find_library(ZIP_LIBRARY zip)
grapevine_require(libzip libzip-dev ZIP_INCLUDE AND ZIP_LIBRARY)

find_library(CAF_CORE caf_core)
find_path(CAF_INCLUDE caf/all.hpp)
grapevine_require(CAF libcaf-dev CAF_CORE AND CAF_INCLUDE)
if(CAF_CORE AND CAF_INCLUDE)
  add_library(CAF::core INTERFACE IMPORTED GLOBAL)
  set_target_properties(CAF::core PROPERTIES
    INTERFACE_LINK_LIBRARIES "${CAF_CORE};Threads::Threads"
    INTERFACE_INCLUDE_DIRECTORIES "${CAF_INCLUDE}")
endif()

find_package(CapnProto QUIET)
grapevine_require(Cap'nProto "capnproto libcapnp-dev" CapnProto_FOUND)
grapevine_require(KJ libcapnp-dev TARGET CapnProto::kj-async AND TARGET CapnProto::kj-tls)
find_package(OpenSSL 3.0 QUIET)
grapevine_require(OpenSSL libssl-dev OPENSSL_FOUND)
find_package(spdlog QUIET)
grapevine_require(spdlog libspdlog-dev spdlog_FOUND)
find_package(fmt QUIET)
grapevine_require(fmt libfmt-dev fmt_FOUND)
find_path(XXHASH_INCLUDE xxhash.h)
find_library(XXHASH_LIBRARY xxhash)
grapevine_require(xxHash libxxhash-dev XXHASH_INCLUDE AND XXHASH_LIBRARY)
find_package(tomlplusplus QUIET)
grapevine_require(toml++ libtomlplusplus-dev tomlplusplus_FOUND)
find_path(EIGEN_INCLUDE Eigen/Dense PATH_SUFFIXES eigen3)
grapevine_require(Eigen libeigen3-dev EIGEN_INCLUDE)
find_path(CLI11_INCLUDE CLI/CLI.hpp)
grapevine_require(CLI11 libcli11-dev CLI11_INCLUDE)
find_path(JSON_INCLUDE nlohmann/json.hpp)
grapevine_require(nlohmann-json nlohmann-json3-dev JSON_INCLUDE)
find_path(HTTPLIB_INCLUDE httplib.h)
find_library(HTTPLIB_LIBRARY cpp-httplib)
grapevine_require(cpp-httplib libcpp-httplib-dev HTTPLIB_INCLUDE AND HTTPLIB_LIBRARY)
if(GRAPEVINE_TESTS)
  find_path(CATCH_INCLUDE catch2/catch.hpp)
  grapevine_require(Catch2 catch2 CATCH_INCLUDE)
  find_package(rapidcheck QUIET)
  grapevine_require(rapidcheck librapidcheck-dev rapidcheck_FOUND)
  find_package(benchmark QUIET)
  grapevine_require(benchmark libbenchmark-dev benchmark_FOUND)
endif()
if(missing)
  list(JOIN missing "\n  " missing)
  message(FATAL_ERROR "missing, please install:\n  ${missing}\n(./run does it on Debian)")
endif()

foreach(header EIGEN CLI11 JSON HTTPLIB CATCH)
  if(${header}_INCLUDE AND NOT TARGET GrapevineDep::${header})
    add_library(GrapevineDep::${header} INTERFACE IMPORTED GLOBAL)
    set_target_properties(GrapevineDep::${header} PROPERTIES
      INTERFACE_INCLUDE_DIRECTORIES "${${header}_INCLUDE}")
  endif()
endforeach()
if(HTTPLIB_LIBRARY)
  target_link_libraries(GrapevineDep::HTTPLIB INTERFACE "${HTTPLIB_LIBRARY}")
  # As Debian has built it (pkg-config --cflags cpp-httplib): without this a Client is a member shorter than the
  # library's, which then writes beyond it.
  target_compile_definitions(GrapevineDep::HTTPLIB INTERFACE CPPHTTPLIB_OPENSSL_SUPPORT)
endif()

# LibTorch: the two libraries and two include folders of the PyPI wheel (its CMake package demands CUDA).
foreach(folder "${GRAPEVINE_LIBTORCH}" "${PROJECT_SOURCE_DIR}/.deps/libtorch")
  if(folder AND NOT GRAPEVINE_LIBTORCH STREQUAL "none" AND NOT TARGET Torch::cpu
      AND EXISTS "${folder}/torch/lib/libtorch_cpu.so")
    add_library(Torch::cpu INTERFACE IMPORTED GLOBAL)
    set(torch_lib "${folder}/torch/lib")
    # What puts its streams beside ours: without a GPU too, wherever there is a CUDA toolkit. The wheel's
    # own headers are not whole.
    find_path(cudart_of_torch crt/host_config.h HINTS /usr/local/cuda/include ENV CUDA_PATH
      PATH_SUFFIXES include)
    if(cudart_of_torch AND EXISTS "${torch_lib}/libc10_cuda.so" AND NOT GRAPEVINE_SANITIZE)
      add_library(Torch::cuda INTERFACE IMPORTED GLOBAL)
      set_target_properties(Torch::cuda PROPERTIES
        INTERFACE_LINK_LIBRARIES "${torch_lib}/libc10_cuda.so"
        INTERFACE_INCLUDE_DIRECTORIES "${cudart_of_torch}")
    endif()
    set_target_properties(Torch::cpu PROPERTIES
      INTERFACE_LINK_LIBRARIES "${torch_lib}/libtorch_cpu.so;${torch_lib}/libc10.so"
      INTERFACE_LINK_OPTIONS "-Wl,-rpath,${torch_lib}"
      INTERFACE_INCLUDE_DIRECTORIES
        "${folder}/torch/include;${folder}/torch/include/torch/csrc/api/include")
    set(torch_folder "${folder}")
  endif()
endforeach()
set(torch_version "none")
if(torch_folder)
  set(torch_version "unknown")
  set(torch_version_header ${torch_folder}/torch/include/torch/headeronly/version.h)
  if(EXISTS ${torch_version_header})
    file(STRINGS ${torch_version_header} lines REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
    string(REGEX MATCHALL "[0-9]+" torch_version "${lines}")
    list(JOIN torch_version "." torch_version)
  endif()
endif()
grapevine_found(LibTorch "${torch_folder}" "no networks; quadratic and consensus objectives only")

# Compiling the GPU's kernels takes a minute: it is done where they can run, or where it is asked for.
set(GRAPEVINE_CUDA "" CACHE STRING "GPU kernels: ON, OFF (default: ON where there is an NVIDIA driver)")
set(cuda_wanted "${GRAPEVINE_CUDA}")
if(cuda_wanted STREQUAL "" AND
    (EXISTS /proc/driver/nvidia/version OR EXISTS /dev/nvidiactl OR EXISTS /dev/dxg))
  set(cuda_wanted ON)
endif()
include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER AND EXISTS /usr/local/cuda/bin/nvcc)
  set(CMAKE_CUDA_COMPILER /usr/local/cuda/bin/nvcc)
endif()
set(without_cuda "no GPU kernels")
if(CMAKE_CUDA_COMPILER AND NOT cuda_wanted)
  set(without_cuda "no NVIDIA driver, so no GPU kernels (-DGRAPEVINE_CUDA=ON compiles them)")
endif()
if(CMAKE_CUDA_COMPILER AND NOT GRAPEVINE_SANITIZE)
  find_package(CUDAToolkit QUIET)  # a test needs its headers, and no GPU
endif()
if(CMAKE_CUDA_COMPILER AND cuda_wanted AND NOT GRAPEVINE_SANITIZE)
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 75 80 90)
  endif()
  enable_language(CUDA)
  set(CMAKE_CUDA_STANDARD 20)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc knows C++20
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
  set(nccl_of_torch ${torch_folder}/nvidia/nccl)  # a wheel beside PyTorch's
  find_path(NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ${nccl_of_torch}/include)
  find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2
    HINTS ${CUDAToolkit_LIBRARY_DIR} ${nccl_of_torch}/lib)
endif()
grapevine_found(CUDA "${CMAKE_CUDA_COMPILER_VERSION}" "${without_cuda}")
grapevine_found(NCCL "${NCCL_INCLUDE}" "no exchanges between GPUs of several hosts")
