#include "base/thread.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <thread>

namespace lagoon {

void NameThisThread(const std::string& name) {
  // Fails only for names over 15 characters. The name is for people only.
  static_cast<void>(pthread_setname_np(pthread_self(), name.substr(0, 15).c_str()));
}

// In Linux a thread has a scheduling class and a nice value of its own.
bool GiveWay(pid_t thread) {
  const sched_param none{};
  return ::sched_setscheduler(thread, SCHED_IDLE, &none) == 0 ||
         ::setpriority(PRIO_PROCESS, static_cast<id_t>(thread), 19) == 0;
}

void TakeBack(pid_t thread) {
  const sched_param none{};
  static_cast<void>(::sched_setscheduler(thread, ::sched_getscheduler(0), &none));
  const int nice = ::getpriority(PRIO_PROCESS, 0);
  static_cast<void>(::setpriority(PRIO_PROCESS, static_cast<id_t>(thread), nice));
}

bool ThreadsMayGiveWay() {
  bool may = false;
  std::jthread([&may] { may = GiveWay(::gettid()); }).join();
  return may;
}

}  // namespace lagoon
