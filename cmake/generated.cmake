# Sources that the build writes: the seccomp programs of both architectures and the compiled-in kern.toml.
set(generated ${CMAKE_BINARY_DIR}/generated)
file(MAKE_DIRECTORY ${generated})

# The generator runs on the building machine, whatever kern is built for.
if(CMAKE_CROSSCOMPILING)
  find_program(KERN_HOST_CC NAMES cc gcc clang REQUIRED)
else()
  set(KERN_HOST_CC ${CMAKE_C_COMPILER})
endif()
set(generator ${generated}/seccomp_gen)
set(generator_sources seccomp_gen.c seccomp_table.c seccomp_assemble.c)
list(TRANSFORM generator_sources PREPEND ${PROJECT_SOURCE_DIR}/plugins/seccomp/)
add_custom_command(OUTPUT ${generator}
  COMMAND ${KERN_HOST_CC} -std=gnu17 -O1 -D_GNU_SOURCE -I${PROJECT_SOURCE_DIR}/core/include
    -o ${generator} ${generator_sources} -lseccomp
  DEPENDS ${generator_sources} plugins/seccomp/seccomp_table.h plugins/seccomp/seccomp_assemble.h
  VERBATIM)
set(seccomp_headers)
foreach(arch x86_64 aarch64)
  foreach(what programs names)
    set(header ${generated}/seccomp_${what}_${arch}.h)
    add_custom_command(OUTPUT ${header} COMMAND ${generator} ${arch} ${what} > ${header}.new
      COMMAND ${CMAKE_COMMAND} -E rename ${header}.new ${header} DEPENDS ${generator} VERBATIM)
    list(APPEND seccomp_headers ${header})
  endforeach()
endforeach()
add_custom_target(kern_seccomp_headers DEPENDS ${seccomp_headers})

# etc/kern.toml.example as bytes: the configuration of a machine that has none.
file(READ ${PROJECT_SOURCE_DIR}/etc/kern.toml.example example HEX)
string(REGEX REPLACE "(..)" "0x\\1," KERN_CONFIG_EXAMPLE "${example}")
configure_file(${PROJECT_SOURCE_DIR}/core/config_example.c.in ${generated}/config_example.c @ONLY)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/etc/kern.toml.example)
