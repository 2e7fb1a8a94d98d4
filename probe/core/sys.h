/* sys.h - raw system calls and the few string functions that code inside a foreign process may use.
 *
 * libc's wrappers can be interposed, may be unrelocated when the first hook runs (ASan looks symbols up
 * before any constructor), set errno, and are cancellation points. These are none of that: each returns the
 * kernel's answer, negative errno on failure, and touches nothing else. Header-only. x86_64 and aarch64.
 */
#ifndef SPARKSHIM_SYS_H
#define SPARKSHIM_SYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#ifdef __clang_analyzer__ /* which would not see what the system call writes */
long sys_call6(long n, long a, long b, long c, long d, long e, long f);
#else
static inline long sys_call6(long n, long a, long b, long c, long d, long e, long f) {
#if defined(__x86_64__)
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  long ret;
  __asm__ volatile("syscall"
                   : "=a"(ret)
                   : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return ret;
#elif defined(__aarch64__)
  register long x8 __asm__("x8") = n;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d;
  register long x4 __asm__("x4") = e;
  register long x5 __asm__("x5") = f;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
  return x0;
#else
#error "sparkshim supports x86_64 and aarch64"
#endif
}
#endif

#define SYS_AT_FDCWD (-100)

static inline int sys_openat(int dir, const char *path, int flags, unsigned mode) {
  return (int)sys_call6(SYS_openat, dir, (long)path, flags, (long)mode, 0, 0);
}
static inline int sys_open(const char *path, int flags, unsigned mode) {
  return sys_openat(SYS_AT_FDCWD, path, flags, mode);
}
static inline int sys_close(int fd) { return (int)sys_call6(SYS_close, fd, 0, 0, 0, 0, 0); }
static inline long sys_read(int fd, void *buf, size_t n) {
  return sys_call6(SYS_read, fd, (long)buf, (long)n, 0, 0, 0);
}
static inline long sys_write(int fd, const void *buf, size_t n) {
  return sys_call6(SYS_write, fd, (long)buf, (long)n, 0, 0, 0);
}
static inline int sys_mkdirat(int dir, const char *path, unsigned mode) {
  return (int)sys_call6(SYS_mkdirat, dir, (long)path, (long)mode, 0, 0, 0);
}
static inline int sys_fallocate(int fd, long size) { return (int)sys_call6(SYS_fallocate, fd, 0, 0, size, 0, 0); }
static inline int sys_getpid(void) { return (int)sys_call6(SYS_getpid, 0, 0, 0, 0, 0, 0); }
static inline int sys_gettid(void) { return (int)sys_call6(SYS_gettid, 0, 0, 0, 0, 0, 0); }
static inline long sys_readlinkat(int dir, const char *path, char *buf, size_t n) {
  return sys_call6(SYS_readlinkat, dir, (long)path, (long)buf, (long)n, 0, 0);
}
/* Address, or a value in [-4095, -1] (as a pointer) on failure: test with sys_is_error. */
static inline void *sys_mmap(void *addr, size_t n, int prot, int flags, int fd, long offset) {
  return (void *)sys_call6(SYS_mmap, (long)addr, (long)n, prot, flags, fd, offset);
}
static inline int sys_munmap(void *addr, size_t n) {
  return (int)sys_call6(SYS_munmap, (long)addr, (long)n, 0, 0, 0, 0);
}
/* glibc's struct stat is the kernel's on both machines. */
static inline int sys_fstat(int fd, struct stat *st) { return (int)sys_call6(SYS_fstat, fd, (long)st, 0, 0, 0, 0); }
static inline int sys_fcntl(int fd, int command, long arg) {
  return (int)sys_call6(SYS_fcntl, fd, command, arg, 0, 0, 0);
}
static inline bool sys_is_error(const void *p) { return (uintptr_t)p > (uintptr_t)-4096; }

static inline size_t str_length(const char *s) {
  size_t n = 0;
  while (s[n]) n++;
  return n;
}
static inline bool str_equal(const char *a, const char *b) {
  while (*a && *a == *b) a++, b++;
  return *a == *b;
}
static inline bool str_starts(const char *s, const char *prefix) {
  while (*prefix)
    if (*s++ != *prefix++) return false;
  return true;
}
/* First place of `needle` in `s`, or NULL. */
static inline const char *str_find(const char *s, const char *needle) {
  for (;; s++) {
    if (str_starts(s, needle)) return s;
    if (!*s) return NULL;
  }
}
/* The part of a path behind its last slash. */
static inline const char *str_base(const char *path) {
  const char *base = path;
  for (; *path; path++)
    if (*path == '/') base = path + 1;
  return base;
}
/* Copies as much of `src` as fits, always NUL-ended when size > 0; returns bytes written without the NUL. */
static inline size_t str_copy(char *dst, size_t size, const char *src) {
  size_t n = 0;
  if (!size) return 0;
  for (; src[n] && n + 1 < size; n++) dst[n] = src[n];
  dst[n] = '\0';
  return n;
}

#endif
