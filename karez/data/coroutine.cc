// Makes a generator of a coroutine.
#include "karez/data/coroutine.h"

#include <memory>

namespace karez::data {

Dataset from_coroutine(std::function<Coroutine(std::int64_t)> make, std::string name) {
  require(make != nullptr, "from_coroutine: the function must not be null");
  // A coroutine that is a lambda expression uses the captures of its closure, so the function must outlive it.
  auto shared = std::make_shared<std::function<Coroutine(std::int64_t)>>(std::move(make));
  return from_generator(
      [shared = std::move(shared)](std::int64_t epoch) {
        struct Run {
          std::shared_ptr<std::function<Coroutine(std::int64_t)>> make;
          Coroutine coroutine;
        };
        auto run = std::make_shared<Run>(Run{shared, (*shared)(epoch)});
        return Generator{[run = std::move(run)] { return run->coroutine.next(); }};
      },
      std::move(name));
}

}  // namespace karez::data
