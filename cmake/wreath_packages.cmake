# `cpack` makes four Debian packages of a build whose prefix is /usr (the preset `packages`). Their dependencies on
# libraries are what dpkg-shlibdeps finds in their files (docs/packages.md).
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "Wreath maintainers <maintainers@wreath.invalid>" CACHE STRING "Answers for the packages: Name <address>")
# Each package has a summary of its own, which CPack would put behind this one.
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ
  WORLD_EXECUTE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/debian_files.cmake)
set(CPACK_WREATH_COPYRIGHT ${PROJECT_SOURCE_DIR}/packaging/debian/copyright)

# wreath_package(NAME SECTION COMPONENTS... SUMMARY text DESCRIPTION text [DEPENDS packages] [SUGGESTS packages]) makes a
# package of components of the installation.
set(CPACK_COMPONENTS_ALL)
function(wreath_package name section)
  cmake_parse_arguments(arg "" "SUMMARY;DESCRIPTION;DEPENDS;SUGGESTS" "" ${ARGN})
  foreach(component IN LISTS arg_UNPARSED_ARGUMENTS)
    string(TOUPPER ${component} upper)
    set(CPACK_COMPONENT_${upper}_GROUP ${name} PARENT_SCOPE)
  endforeach()
  list(APPEND CPACK_COMPONENTS_ALL ${arg_UNPARSED_ARGUMENTS})
  set(CPACK_COMPONENTS_ALL ${CPACK_COMPONENTS_ALL} PARENT_SCOPE)
  string(TOUPPER ${name} upper)
  set(variable CPACK_DEBIAN_${upper})
  set(${variable}_PACKAGE_NAME ${name} PARENT_SCOPE)
  set(${variable}_PACKAGE_SECTION ${section} PARENT_SCOPE)
  set(${variable}_PACKAGE_DEPENDS "${arg_DEPENDS}" PARENT_SCOPE)
  set(${variable}_PACKAGE_SUGGESTS "${arg_SUGGESTS}" PARENT_SCOPE)
  set(${variable}_DESCRIPTION "${arg_SUMMARY}\n${arg_DESCRIPTION}" PARENT_SCOPE)
endfunction()

set(same "(= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")
set(about "Wreath sums, gathers and exchanges arrays between threads, processes and\nhosts, over shared memory, TCP and RDMA adapters.")
wreath_package(libwreath0 libs runtime SUMMARY "collective communication: the library"
  DESCRIPTION "${about}\nThis package has the shared library." SUGGESTS "libibverbs1, libfabric1")
wreath_package(libwreath-dev libdevel development documents SUMMARY "collective communication: headers and documents"
  DESCRIPTION "${about}\nThis package has the headers for C++ and C, the documents and the examples."
  DEPENDS "libwreath0 ${same}")
wreath_package(wreath-tools utils tools SUMMARY "collective communication: the command wreath, and measurements"
  DESCRIPTION "${about}\nThis package has the command wreath, which starts ranks and explains a\nmachine and a job, and programs that measure each collective."
  SUGGESTS "libwreath0, libibverbs1, libfabric1, openssh-client")
wreath_package(libwreath-nccl libs nccl SUMMARY "collective communication: the library under NCCL's names"
  DESCRIPTION "${about}\nThis package has a libnccl.so.2 in a folder of its own, for programs that\nwere built for NCCL."
  SUGGESTS "wreath-tools, libibverbs1, libfabric1")

# The loader learns of the library, and dpkg-shlibdeps of who depends on it.
set(triggers ${CMAKE_CURRENT_BINARY_DIR}/package/triggers)
set(shlibs ${CMAKE_CURRENT_BINARY_DIR}/package/shlibs)
file(CONFIGURE OUTPUT ${triggers} CONTENT "activate-noawait ldconfig\n")
file(CONFIGURE OUTPUT ${shlibs} CONTENT "libwreath ${PROJECT_VERSION_MAJOR} libwreath0 (>= ${PROJECT_VERSION})\n")
set(CPACK_DEBIAN_LIBWREATH0_PACKAGE_CONTROL_EXTRA "${triggers};${shlibs}")
include(CPack)
