# SPDX-License-Identifier: Apache-2.0
# What every kind of package has next to the program and the library: the manual page and the shells' completion, which
# the program prints itself. `cmake --install`, the tarball, the wheel and the Debian package share this layout.
set(share ${CMAKE_BINARY_DIR}/share)
set(shell_bash bash-completion/completions/gpuwatch)
set(shell_zsh zsh/site-functions/_gpuwatch)
set(shell_fish fish/vendor_completions.d/gpuwatch.fish)

set(documents ${share}/man/man1/gpuwatch.1)
add_custom_command(OUTPUT ${documents} COMMAND gpuwatch man > ${documents} DEPENDS gpuwatch VERBATIM)
file(MAKE_DIRECTORY ${share}/man/man1)
foreach(shell bash zsh fish)
  set(file ${share}/${shell_${shell}})
  get_filename_component(folder ${file} DIRECTORY)
  file(MAKE_DIRECTORY ${folder})
  add_custom_command(OUTPUT ${file} COMMAND gpuwatch completion ${shell} > ${file} DEPENDS gpuwatch VERBATIM)
  list(APPEND documents ${file})
endforeach()
add_custom_target(share ALL DEPENDS ${documents})
install(DIRECTORY ${share}/ DESTINATION share)
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION share/doc/gpuwatch)

# `cpack -G DEB` in the build folder: for the Debian or Ubuntu release that it is built on.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "the gpuwatch developers")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "tells where each second of a training run goes, and what to change")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
include(CPack)
