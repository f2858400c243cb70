# Cross build for aarch64 with Debian's gcc-aarch64-linux-gnu:
#
#     cmake -S . -B build-aarch64 -G Ninja -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64.toolchain.cmake
#
# The libraries (libconfuse, libseccomp, jansson, libcurl, libcrypto) come from KERN_SYSROOT, a folder with usr/include and
# usr/lib/aarch64-linux-gnu, or from Debian's multiarch packages. scripts/aarch64-libraries makes such a folder.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_ASM_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES KERN_SYSROOT)
if(KERN_SYSROOT)
  set(kern_libraries ${KERN_SYSROOT}/usr/lib/aarch64-linux-gnu)
  set(CMAKE_FIND_ROOT_PATH ${KERN_SYSROOT})
  set(ENV{PKG_CONFIG_SYSROOT_DIR} ${KERN_SYSROOT})
  # Their headers come last: the C library's own belong to the compiler.
  set(CMAKE_C_FLAGS_INIT "-idirafter \"${KERN_SYSROOT}/usr/include\" -idirafter \"${KERN_SYSROOT}/usr/include/aarch64-linux-gnu\"")
  set(CMAKE_EXE_LINKER_FLAGS_INIT "-L\"${kern_libraries}\"")
  set(CMAKE_MODULE_LINKER_FLAGS_INIT "-L\"${kern_libraries}\"")
else()
  set(kern_libraries /usr/lib/aarch64-linux-gnu)
endif()
set(ENV{PKG_CONFIG_LIBDIR} ${kern_libraries}/pkgconfig)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
