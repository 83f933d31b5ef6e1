// Turns any thrown object into an Error.
#include "karez/runtime/current_error.h"

#include <exception>
#include <new>

namespace karez::runtime {

std::string torn_text() {
  return "; the launch had begun to write its variables, which now hold values of two steps: read or save the "
         "variables that it does not write, then reset the world and load a checkpoint";
}

Error current_error() {
  try {
    throw;
  } catch (const Error& error) { return error; } catch (const std::bad_alloc&) {
    return {ErrorKind::device, "out of host memory"};
  } catch (const std::exception& error) { return Error(error.what()); } catch (const std::string& text) {
    return Error(text);
  } catch (const char* text) { return Error(text); } catch (...) {
    return Error("an object was thrown that is not a std::exception");
  }
}

}  // namespace karez::runtime
