// Starts processes by vfork and exec on a thread that lives as long as this process: the system kills a worker when the
// thread that has started it ends.
#include "python/src/worker_launch.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <thread>

#include "karez/api/data_iterator.h"

namespace karez::python {
namespace {

using base::require;

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (const std::string& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

// In the child of vfork, which shares the memory of this process until it executes the program: only system calls, and
// handlers of signals are reset before signals are unblocked. Returns if the program could not be executed.
void execute(char* const* arguments, char* const* environment, const std::vector<int>& files, int empty_file,
             pid_t parent, const cpu_set_t* cpus) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // it has ended before
  struct sigaction action = {};
  for (int number = 1; number < NSIG; ++number) {
    if (sigaction(number, nullptr, &action) != 0) continue;
    if (number != SIGINT && (action.sa_handler == SIG_IGN || action.sa_handler == SIG_DFL)) continue;
    std::memset(&action, 0, sizeof action);
    action.sa_handler = number == SIGINT ? SIG_IGN : SIG_DFL;
    sigaction(number, &action, nullptr);
  }
  for (int file : files) fcntl(file, F_SETFD, 0);
  dup2(empty_file, 0);
  if (cpus != nullptr) sched_setaffinity(0, sizeof *cpus, cpus);
  setpriority(PRIO_PROCESS, 0, std::min(getpriority(PRIO_PROCESS, parent) + 5, 19));  // like data threads
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execve(arguments[0], arguments, environment);
}

pid_t launch(const WorkerCommand& command, const cpu_set_t* cpus) {
  const std::vector<char*> arguments = pointers(command.arguments), environment = pointers(command.environment);
  const int empty_file = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const pid_t parent = getpid();
  volatile int error = 0;
  const pid_t pid = vfork();
  if (pid == 0) {
    execute(arguments.data(), environment.data(), command.files, empty_file, parent, cpus);
    error = errno;
    _exit(127);
  }
  if (pid < 0) error = errno;
  if (empty_file >= 0) close(empty_file);
  if (pid > 0 && error != 0) waitpid(pid, nullptr, 0);
  require(error == 0, "a worker process cannot be started: ", command.arguments[0], ": ", std::strerror(error));
  return pid;
}

void end(pid_t pid, int socket) {
  pollfd watched{socket, POLLIN, 0};
  while (poll(&watched, 1, 1000) < 0 && errno == EINTR) continue;
  close(socket);
  kill(pid, SIGKILL);
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) continue;
}

class LaunchThread {
 public:
  LaunchThread() {
    std::thread thread([this] { run(); });
    thread.detach();
  }
  void add(std::function<void()> task) {
    std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    changed_.notify_one();
  }

  // A process that was forked lacks the thread and gets one of its own. None is ever destroyed, since the thread uses
  // it until the process has ended.
  static LaunchThread& get() {
    static std::atomic<LaunchThread*> current{nullptr};
    static std::atomic<pid_t> owner{0};
    static std::mutex mutex;
    std::lock_guard lock(mutex);
    if (owner != getpid()) current = new LaunchThread, owner = getpid();
    return *current;
  }

 private:
  void run() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    prctl(PR_SET_NAME, "karez-launch");
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !tasks_.empty(); });
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
};

}  // namespace

pid_t launch_worker(const WorkerCommand& command) {
  cpu_set_t cpus;
  const bool has_cpus = sched_getaffinity(0, sizeof cpus, &cpus) == 0;
  std::promise<pid_t> started;
  LaunchThread::get().add([&] {
    try {
      started.set_value(launch(command, has_cpus ? &cpus : nullptr));
    } catch (...) { started.set_exception(std::current_exception()); }
  });
  return started.get_future().get();
}

void end_worker(pid_t pid, int socket) {
  LaunchThread::get().add([pid, socket] { end(pid, socket); });
}

std::string worker_end_text(pid_t pid) {
  int status = 0;
  for (int tries = 0;; ++tries) {
    const pid_t found = waitpid(pid, &status, WNOHANG);
    if (found == pid) break;
    if (found < 0 && errno != EINTR) return "has ended";  // another part of the program has waited for it
    if (tries == 200) kill(pid, SIGKILL);                 // it has closed its sockets, but goes on
    std::this_thread::sleep_for(std::chrono::milliseconds(tries < 10 ? 1 : 10));
  }
  if (WIFSIGNALED(status))
    return base::cat("was killed by signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)), ")");
  return base::cat("ended with exit status ", WEXITSTATUS(status));
}

}  // namespace karez::python
