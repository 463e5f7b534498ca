#include "server/remote/remote_change.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "server/remote/remote_codec.h"
#include "server/remote/remote_lesson.h"

namespace lagoon {

void RemoteCore::Change::Start() {
  // A change that comes before the connection waits for it, until the polls say that the member is
  // lost.
  context_.set_wait_for_ready(true);
  const auto ends = [this](const grpc::Status& status) { Done(status); };
  if (load_) {
    to_load_.set_model_name(model_);
    owner_.stub_->async()->RepositoryModelLoad(&context_, &to_load_, &loaded_, ends);
  } else {
    to_unload_.set_model_name(model_);
    owner_.stub_->async()->RepositoryModelUnload(&context_, &to_unload_, &unloaded_, ends);
  }
}

void RemoteCore::Change::Done(const grpc::Status& status) {
  Status result;
  if (!status.ok()) result = tl::unexpected<Error>(ErrorOf(status, owner_.member_));
  {
    MutexLock lock(owner_.mutex_);
    owner_.changes_.erase(this);
    ++owner_.answering_;
    if (result && owner_.connected_) owner_.Note(model_, load_);
    if (result && load_ && owner_.connected_ && !owner_.draining_) {
      // The model serves when the member has told what it is.
      auto* const lesson =  // NOLINT(cppcoreguidelines-owning-memory): deletes itself
          new Lesson(owner_, {model_, ""}, [done = done_] { done({}); });
      owner_.lessons_.insert(lesson);
      lesson->Start();
      learns_ = true;
    }
  }
  if (!learns_) done_(std::move(result));
  RemoteCore& owner = owner_;
  delete this;
  owner.Answered();
}

void RemoteCore::LoadModel(const std::string& model, LoadOverride with,
                           std::function<void(Status)> done) {
  if (!with.empty()) {
    return done(Fail(ErrorCode::kUnimplemented,
                     fmt::format("member {} loads model {} as its repository has it, without a "
                                 "config or files of a request",
                                 Quoted(member_), Quoted(model))));
  }
  // The shares of other models are to leave room for this one.
  shares_->Then([this, model, done = std::move(done)]() mutable {
    Begin(std::make_unique<Change>(*this, model, /*load=*/true, std::move(done)));
  });
}

void RemoteCore::UnloadModel(const std::string& model, std::function<void(Status)> done) {
  Begin(std::make_unique<Change>(*this, model, /*load=*/false, std::move(done)));
}

void RemoteCore::Begin(std::unique_ptr<Change> change) {
  Status admitted;
  {
    MutexLock lock(mutex_);
    admitted = Admit();
    if (admitted) {
      changes_.insert(change.get());
      change.release()->Start();  // deletes itself when it is done
    }
  }
  if (!admitted) change->Refuse(std::move(admitted).error());
}

void RemoteCore::Note(const std::string& model, bool loaded) {
  made_[model] = {loaded, Now()};
  ApplyChanges(TimePoint{});
  TakeSubjects();
}

void RemoteCore::ApplyChanges(TimePoint asked) {
  std::erase_if(made_, [asked](const auto& made) { return made.second.at < asked; });
  for (const auto& [name, made] : made_) {
    if (!made.loaded) {
      std::erase_if(report_.models,
                    [&model = name](const ModelStatistics& row) { return row.name == model; });
    } else if (std::ranges::find(report_.models, name, &ModelStatistics::name) ==
               report_.models.end()) {
      report_.models.emplace_back().name = name;
    }
  }
}

}  // namespace lagoon
