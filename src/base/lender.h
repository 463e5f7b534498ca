#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "base/check.h"
#include "base/mutex.h"

namespace lagoon {

/// Owns an object and lends it to other threads. TakeBack() waits until every lease has ended, so
/// that the owner's thread alone destroys the object.
///
/// Any thread may call Borrow(). Lend(), Withdraw() and TakeBack() belong to the owner's thread,
/// which must hold no lease when it calls TakeBack() or the destructor.
template <typename T>
class Lender {
 public:
  /// The right to use the object until the lease ends; false when there was no object to borrow.
  class [[nodiscard]] Lease {
   public:
    Lease() = default;
    Lease(Lease&& other) noexcept
        : lender_(std::exchange(other.lender_, nullptr)), object_(other.object_) {}
    Lease& operator=(Lease&&) = delete;
    ~Lease() {
      if (lender_ != nullptr) lender_->End();
    }

    explicit operator bool() const { return lender_ != nullptr; }
    T* operator->() const { return object_; }
    T& operator*() const { return *object_; }

   private:
    friend class Lender;
    Lease(Lender& lender, T* object) : lender_(&lender), object_(object) {}

    Lender* lender_ = nullptr;
    T* object_ = nullptr;
  };

  Lender() = default;
  Lender(const Lender&) = delete;
  Lender& operator=(const Lender&) = delete;
  ~Lender() { TakeBack(); }

  /// The object lent before must have been taken back.
  void Lend(std::unique_ptr<T> object) {
    const MutexLock lock(mutex_);
    LAGOON_CHECK(object_ == nullptr && object != nullptr);
    object_ = std::move(object);
    lending_ = true;
  }

  Lease Borrow() {
    const MutexLock lock(mutex_);
    if (!lending_) return {};
    ++leases_;
    return Lease(*this, object_.get());
  }

  /// Borrow() finds nothing from now on. Leases go on, and the object lives until TakeBack().
  /// Returns the object, or null when there is none.
  T* Withdraw() {
    const MutexLock lock(mutex_);
    lending_ = false;
    return object_.get();
  }

  /// Withdraws the object, waits until the last lease has ended, and returns the object; null when
  /// there is none.
  std::unique_ptr<T> TakeBack() {
    const MutexLock lock(mutex_);
    lending_ = false;
    while (leases_ > 0) returned_.Wait(mutex_);
    return std::move(object_);
  }

 private:
  void End() {
    const MutexLock lock(mutex_);
    // Under the lock: the lender may be destroyed as soon as TakeBack() has seen the count.
    if (--leases_ == 0) returned_.NotifyAll();
  }

  Mutex mutex_;
  CondVar returned_;
  std::unique_ptr<T> object_ GUARDED_BY(mutex_);
  bool lending_ GUARDED_BY(mutex_) = false;
  std::size_t leases_ GUARDED_BY(mutex_) = 0;
};

}  // namespace lagoon
