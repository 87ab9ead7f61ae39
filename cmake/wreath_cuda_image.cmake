# This file turns code for GPUs into bytes of a library, with one fat binary for each .cu file. It has code for every
# capability of WREATH_CUDA_TARGETS, and PTX for later ones. It uses a custom command, since CMake's CUDA language wants
# a whole toolkit (a runtime library to link its test program). This way needs only the compiler. The compiler prints
# the registers and shared memory of each kernel; the size of the fat binary follows. The target `wreath_cuda_image`
# builds all of them.
option(WREATH_REQUIRE_CUDA "Fail when nvcc is not found" OFF)
if(WREATH_REQUIRE_CUDA AND NOT (WREATH_CUDA AND WREATH_NVCC))
  message(FATAL_ERROR "WREATH_REQUIRE_CUDA is ON but nvcc was not found; set WREATH_NVCC, and WREATH_CUDA=ON")
endif()
set(wreath_cuda_image_template ${CMAKE_CURRENT_LIST_DIR}/cuda_image.cpp.in)

if(WREATH_CUDA AND WREATH_NVCC AND NOT WREATH_CUDA_TARGETS STREQUAL "none")
  add_custom_target(wreath_cuda_image)
  set(wreath_nvcc_targets)
  foreach(target IN LISTS WREATH_CUDA_TARGETS)
    list(APPEND wreath_nvcc_targets -gencode arch=compute_${target},code=sm_${target})
  endforeach()
  list(GET WREATH_CUDA_TARGETS -1 last)
  list(APPEND wreath_nvcc_targets -gencode arch=compute_${last},code=compute_${last})
  # Contraction is off, so that sums are the CPU's, bit for bit.
  set(wreath_nvcc_flags -std=c++20 -O3 -fmad=false --expt-relaxed-constexpr -Xptxas -v --threads 2 -ccbin ${CMAKE_CXX_COMPILER}
    -I${CMAKE_SOURCE_DIR} -I${CMAKE_SOURCE_DIR}/include $<$<BOOL:${WREATH_WERROR}>:-Werror=all-warnings>)
  # This mode gives a sixth of the size, for drivers from 550.54 on. A compiler older than 12.8 has one way only.
  execute_process(COMMAND ${WREATH_NVCC} --help OUTPUT_VARIABLE options ERROR_QUIET)
  list(APPEND wreath_nvcc_flags -Xfatbin -compress-all)
  if(options MATCHES "--compress-mode")
    list(APPEND wreath_nvcc_flags --compress-mode=size)
  endif()
endif()

# wreath_cuda_image(LIBRARY FUNCTION SOURCE) gives the library `const void* wreath::FUNCTION() noexcept`. The function
# returns the fat binary of SOURCE for Kernel::image, or null in builds without nvcc or with WREATH_CUDA_TARGETS=none.
function(wreath_cuda_image library function source)
  set(image)
  set(bytes "nullptr")
  set(definition)
  if(TARGET wreath_cuda_image)
    set(image ${CMAKE_CURRENT_BINARY_DIR}/${function}.fatbin)
    add_custom_command(
      OUTPUT ${image}
      COMMAND ${WREATH_NVCC} ${wreath_nvcc_flags} ${wreath_nvcc_targets} -MD -MF ${image}.d -fatbin
        ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${image}
      COMMAND ${CMAKE_COMMAND} -E echo "size of the fat binary:"
      COMMAND wc -c ${image}
      DEPENDS ${source}
      DEPFILE ${image}.d
      COMMENT "Compiling ${source} for ${WREATH_CUDA_TARGETS}"
      COMMAND_EXPAND_LISTS VERBATIM)
    add_custom_target(${function}_fatbin DEPENDS ${image})
    add_dependencies(wreath_cuda_image ${function}_fatbin)
    # Ninja knows it by OBJECT_DEPENDS, and with the dependency all that links the library would wait there.
    if(NOT CMAKE_GENERATOR MATCHES "Ninja")
      add_dependencies(${library} ${function}_fatbin)
    endif()
    set(bytes "wreath_${function}_bytes")
    set(definition "asm(\".pushsection .rodata\\n.balign 16\\n.local ${bytes}\\n${bytes}:\\n.incbin \\\"${image}\\\"\\n.popsection\\n\");
extern \"C\" const unsigned char ${bytes}[];")
  endif()
  set(accessor ${CMAKE_CURRENT_BINARY_DIR}/${function}.cpp)
  configure_file(${wreath_cuda_image_template} ${accessor} @ONLY)
  target_sources(${library} PRIVATE ${accessor})
  # The accessor has an object of its own, so that a test program may have another image in its place.
  set_source_files_properties(${accessor} TARGET_DIRECTORY ${library} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  if(image)
    set_source_files_properties(${accessor} TARGET_DIRECTORY ${library} PROPERTIES OBJECT_DEPENDS ${image})
  endif()
endfunction()
