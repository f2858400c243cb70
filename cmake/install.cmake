# What an installation holds besides kern and its plugins: the SDK for plugins, man pages, completions, documents.
include(CMakePackageConfigHelpers)
set(sdk_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/kern-plugin)
file(RELATIVE_PATH KERN_PC_TO_PREFIX /x/${CMAKE_INSTALL_LIBDIR}/pkgconfig /x)
file(RELATIVE_PATH KERN_CMAKE_TO_PREFIX /x/${sdk_cmake_dir} /x)
configure_file(${PROJECT_SOURCE_DIR}/cmake/kern-plugin.pc.in ${CMAKE_BINARY_DIR}/generated/kern-plugin.pc @ONLY)
configure_file(${PROJECT_SOURCE_DIR}/cmake/kern-plugin-config.cmake.in ${CMAKE_BINARY_DIR}/generated/kern-plugin-config.cmake @ONLY)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/generated/kern-plugin-config-version.cmake COMPATIBILITY AnyNewerVersion)
install(DIRECTORY core/include/kern DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${CMAKE_BINARY_DIR}/generated/kern-plugin.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES ${CMAKE_BINARY_DIR}/generated/kern-plugin-config.cmake
  ${CMAKE_BINARY_DIR}/generated/kern-plugin-config-version.cmake DESTINATION ${sdk_cmake_dir})

# kern-plugin(3) and its groups come from the header's comments.
find_program(KERN_PYTHON NAMES python3)
if(KERN_PYTHON)
  set(sdk_man_stamp ${CMAKE_BINARY_DIR}/man/kern-plugin.3)
  add_custom_command(OUTPUT ${sdk_man_stamp}
    COMMAND ${KERN_PYTHON} ${PROJECT_SOURCE_DIR}/scripts/plugin-man ${PROJECT_SOURCE_DIR}/core/include/kern/plugin.h
      ${PROJECT_VERSION} ${CMAKE_BINARY_DIR}/man/plugin
    COMMAND ${CMAKE_COMMAND} -E copy ${CMAKE_BINARY_DIR}/man/plugin/kern-plugin.3 ${sdk_man_stamp}
    DEPENDS scripts/plugin-man core/include/kern/plugin.h VERBATIM)
  add_custom_target(kern_plugin_man ALL DEPENDS ${sdk_man_stamp})
  install(DIRECTORY ${CMAKE_BINARY_DIR}/man/plugin/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man3)
else()
  message(STATUS "no python3: the man pages of the plugin interface are not made")
endif()

# The documents stand to each other as in the source, with what they link to, so that their links lead somewhere.
install(FILES README.md CHANGELOG.md SECURITY.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
file(GLOB pages RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS
  docs/*.md bench/README.md bindings/python/*.md bindings/node/*.md integrations/*/*.md)
foreach(page ${pages})
  get_filename_component(folder ${page} DIRECTORY)
  install(FILES ${page} DESTINATION ${CMAKE_INSTALL_DOCDIR}/${folder})
endforeach()
install(FILES etc/kern.toml.example DESTINATION ${CMAKE_INSTALL_DOCDIR}/etc)
install(DIRECTORY plugins/example plugins/audit plugins/timens plugins/gpu DESTINATION ${CMAKE_INSTALL_DOCDIR}/plugins)

# Man pages and completions are what the built kern prints about itself, so a kern for another machine makes none.
if(CMAKE_CROSSCOMPILING)
  return()
endif()

# kern_printed(FILE TEMPLATE WORDS...): FILE is what `kern WORDS` prints; TEMPLATE is what it reads for that, or kern.
set(printed_files)
macro(kern_printed file template)
  add_custom_command(OUTPUT ${file}
    COMMAND $<TARGET_FILE:kern> ${ARGN} > ${file}.new
    COMMAND ${CMAKE_COMMAND} -E rename ${file}.new ${file}
    DEPENDS kern ${template} VERBATIM)
  list(APPEND printed_files ${file})
endmacro()

file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/man ${CMAKE_BINARY_DIR}/completions)
file(GLOB templates CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/man/*.in)
foreach(template ${templates})
  get_filename_component(page ${template} NAME_WLE)
  string(REGEX REPLACE ".*\\." "" section ${page})
  kern_printed(${CMAKE_BINARY_DIR}/man/${page} ${template} help --roff ${template})
  install(FILES ${CMAKE_BINARY_DIR}/man/${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
endforeach()
foreach(shell bash zsh fish)
  kern_printed(${CMAKE_BINARY_DIR}/completions/kern.${shell} kern completion ${shell})
endforeach()
install(FILES ${CMAKE_BINARY_DIR}/completions/kern.bash RENAME kern
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${CMAKE_BINARY_DIR}/completions/kern.zsh RENAME _kern DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES ${CMAKE_BINARY_DIR}/completions/kern.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
add_custom_target(kern_printed ALL DEPENDS ${printed_files})
