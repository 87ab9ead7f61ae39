# CPack runs this over the folder of each package's files: it adds what Debian wants in a package, and packs man pages.
# The date of a package is SOURCE_DATE_EPOCH, where that is set.
file(GLOB folders ${CPACK_TEMPORARY_DIRECTORY}/*/usr)
foreach(folder IN LISTS folders)
  get_filename_component(package ${folder} DIRECTORY)
  get_filename_component(package ${package} NAME)
  set(documents ${folder}/share/doc/${package})
  file(COPY ${CPACK_WREATH_COPYRIGHT} DESTINATION ${documents} FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
  # The file copyright names the licence, which each Debian has.
  file(REMOVE ${folder}/share/doc/wreath/LICENSE)
  string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
  set(version ${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})
  file(WRITE ${documents}/changelog.Debian "wreath (${version}) unstable; urgency=medium

  * Made by CPack. CHANGELOG.md in libwreath-dev says what is new.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
  file(GLOB pages ${folder}/share/man/man1/*.1)
  foreach(file IN LISTS pages ITEMS ${documents}/changelog.Debian)
    execute_process(COMMAND gzip -9nf ${file} COMMAND_ERROR_IS_FATAL ANY)
    file(CHMOD ${file}.gz PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
  endforeach()
endforeach()
