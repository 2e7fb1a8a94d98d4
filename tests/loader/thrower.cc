// A constructor that leaves through dlopen: by an exception (THROWS) or by the jump that its program prepared.
#include <csetjmp>
#include <stdexcept>

extern "C" jmp_buf *way_out;

namespace {
struct Leaver {
  Leaver() {
#ifdef THROWS
    throw std::runtime_error("thrown by a constructor");
#else
    longjmp(*way_out, 3);
#endif
  }
} leaver;
}  // namespace
