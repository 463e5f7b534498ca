// What a member tells of its models.

#include "server/remote/remote_lesson.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "base/log.h"
#include "base/text.h"
#include "server/remote/remote_call.h"
#include "server/remote/remote_codec.h"
#include "serving/config/model_class.h"

namespace lagoon {
namespace {

/// Whether answers of a model look the same by both.
bool SameOutputs(const ModelMetadata& a, const ModelMetadata& b) {
  return std::ranges::equal(a.outputs, b.outputs, [](const TensorSpec& x, const TensorSpec& y) {
    return x.name == y.name && x.type == y.type && x.dims == y.dims;
  });
}

}  // namespace

grpc::ClientContext& RemoteCore::Lesson::Renew() {
  context_.emplace();
  context_->set_deadline(DeadlineIn(owner_.options_.poll_timeout));
  return *context_;
}

std::function<void(grpc::Status)> RemoteCore::Lesson::Ends() {
  return [this](grpc::Status status) {
    status_ = std::move(status);
    Done();
  };
}

void RemoteCore::Lesson::Start() {
  asks_metadata_.set_name(key_.first);
  asks_metadata_.set_version(key_.second);
  owner_.stub_->async()->ModelMetadata(&Renew(), &asks_metadata_, &metadata_, Ends());
}

void RemoteCore::Lesson::AskConfig() {
  for_config_ = true;
  asks_config_.set_name(key_.first);
  asks_config_.set_version(key_.second);
  owner_.stub_->async()->ModelConfig(&Renew(), &asks_config_, &config_, Ends());
}

Result<RemoteCore::Learned> RemoteCore::Lesson::Outcome() {
  if (!status_.ok()) return tl::unexpected<Error>(ErrorOf(status_, owner_.member_));
  LAGOON_ASSIGN_OR_RETURN(ModelMetadata metadata, ParseMetadata(metadata_));
  metadata.max_batch = config_.config().max_batch_size();
  inference::ModelConfig& config = *config_.mutable_config();
  const bool decoupled = config.model_transaction_policy().decoupled();
  const JobClass job_class = ClassOf(config);
  return Learned{std::move(metadata), std::move(config), decoupled, job_class};
}

void RemoteCore::Lesson::Done() {
  {
    MutexLock lock(owner_.mutex_);
    if (status_.ok() && !for_config_ && owner_.connected_ && !owner_.draining_) {
      return AskConfig();
    }
    owner_.lessons_.erase(this);
    ++owner_.answering_;
    if (for_config_ || !status_.ok()) owner_.Learn(key_, Outcome());
    if (!done_) owner_.learning_ = false;
    owner_.LearnNext();
  }
  if (done_) done_();
  RemoteCore& owner = owner_;
  delete this;
  owner.Answered();
}

void RemoteCore::DropOddRows(std::vector<ModelStatistics>& rows) {
  const auto odd = [](const ModelStatistics& row) {
    return !IsModelName(row.name) || !(row.version.empty() || IsVersion(row.version));
  };
  const auto first = std::ranges::find_if(rows, odd);
  if (first != rows.end()) {
    const std::string name =
        fmt::format("{} of version {}", Quoted(first->name), Quoted(first->version));
    if (name != odd_) {
      spdlog::warn(
          "{}: model {} is not served, as no model can have this name: letters, digits, "
          "'.', '_' and '-', at most {}, and a version of digits",
          member_, name, kMostModelNameBytes);
    }
    odd_ = name;
    std::erase_if(rows, odd);
  }
  if (rows.size() <= kMostModels) return;
  const std::string name = rows[kMostModels].name;
  if (name != odd_) {
    spdlog::warn(
        "{}: it has {} models, the limit is {}: model {} and those after it are not served",
        member_, rows.size(), kMostModels, Quoted(name));
  }
  odd_ = name;
  rows.resize(kMostModels);
}

void RemoteCore::TakeSubjects() {
  std::map<std::string, std::vector<std::string>> told;
  for (const ModelStatistics& row : report_.models) {
    std::vector<std::string>& versions = told[row.name];
    if (!row.version.empty()) versions.push_back(row.version);
  }
  std::erase_if(subjects_, [&](const auto& entry) { return !told.contains(entry.first); });
  for (auto& [name, versions] : told) {
    std::ranges::sort(versions, {}, [](const std::string& version) {
      return std::tuple(version.size(), version);  // they are numbers
    });
    Subject& subject = subjects_[name];
    if (!subject.questions.empty() && subject.versions == versions) continue;
    subject.versions = versions;
    std::erase_if(subject.questions, [&, &versions = versions](const auto& entry) {
      return !entry.first.empty() && std::ranges::count(versions, entry.first) == 0;
    });
    // What was answered before holds until the new answer.
    if (versions.size() < 2) versions.clear();
    versions.emplace_back();
    for (const std::string& version : versions) {
      subject.questions[version].open = true;
      subject.questions[version].ask_at = {};
    }
  }
  if (counts_.size() <= kMostModels) return;
  std::erase_if(counts_, [this](const auto& entry) REQUIRES(mutex_) {
    return entry.second->in_flight == 0 && !subjects_.contains(entry.first.first);
  });
}

void RemoteCore::AskAgain() {
  for (auto& [name, subject] : subjects_) {
    for (auto& [version, question] : subject.questions) {
      question.again = learning_;
      question.confirmed = false;
      if (question.open) continue;
      question.open = true;
      question.ask_at = Now();  // models of which nothing is known yet come first
    }
  }
}

void RemoteCore::LearnNext() {
  if (learning_ || draining_ || !connected_ || !refusal_.empty()) return;
  TimePoint first = Now();
  std::optional<Key> next;
  for (const auto& [name, subject] : subjects_) {
    for (const auto& [version, question] : subject.questions) {
      if (!question.open || question.ask_at > first) continue;
      first = question.ask_at;
      next = {name, version};
    }
  }
  if (!next) return;
  learning_ = true;
  subjects_.at(next->first).questions.at(next->second).again = false;
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): deletes itself when it is done
  auto* const lesson = new Lesson(*this, *next, {});
  lessons_.insert(lesson);
  lesson->Start();
}

void RemoteCore::Learn(const Key& key, Result<Learned> learned) {
  const auto subject = subjects_.find(key.first);
  if (subject == subjects_.end() || draining_) return;
  const auto question = subject->second.questions.find(key.second);
  if (question == subject->second.questions.end()) return;
  if (!learned) {
    if (question->second.error != learned.error().message) {
      spdlog::warn("{}: model {} is not served, as the member does not tell what it is: {}",
                   member_, Quoted(key.first), learned.error().message);
    }
    question->second.error = learned.error().message;
    question->second.ask_at = Now() + options_.poll_timeout;
    return;
  }
  learned->told = ++told_;
  const std::shared_ptr<const Learned> before = question->second.learned;
  const bool same = before != nullptr && SameOutputs(before->metadata, learned->metadata);
  question->second = {
      .learned = std::make_shared<const Learned>(*std::move(learned)),
      .open = question->second.again,
      .ask_at = {},
      .error = {},
      .again = false,
      .doubted = false,
      .confirmed = same && (question->second.doubted || question->second.confirmed)};
}

const RemoteCore::Question* RemoteCore::QuestionOf(const std::string& model,
                                                   const std::string& version) const {
  const auto subject = subjects_.find(model);
  if (subject == subjects_.end()) return nullptr;
  const std::vector<std::string>& versions = subject->second.versions;
  const bool only = versions.size() == 1 && versions.front() == version;
  const auto question = subject->second.questions.find(only ? "" : version);
  return question == subject->second.questions.end() ? nullptr : &question->second;
}

Result<std::shared_ptr<const RemoteCore::Learned>> RemoteCore::Known(
    const std::string& model, const std::string& version) const {
  const Question* const question = QuestionOf(model, version);
  const auto shown = [&] {
    return version.empty() ? Quoted(model)
                           : fmt::format("{}, version {}", Quoted(model), Quoted(version));
  };
  if (question == nullptr) {
    return Fail(ErrorCode::kNotFound, fmt::format("model {}: not at {}", shown(), member_));
  }
  if (question->learned != nullptr && question->learned->decoupled) {
    return Fail(ErrorCode::kUnimplemented,
                fmt::format("model {} is decoupled, it has any number of answers, and the front of "
                            "a fleet of servers does not pass these on: send to {} itself",
                            shown(), member_));
  }
  if (question->learned != nullptr) return question->learned;
  return Fail(ErrorCode::kUnavailable,
              fmt::format("model {}: {} has not told yet what it is{}{}", shown(), member_,
                          question->error.empty() ? "" : ": ", question->error));
}

Status RemoteCore::CheckTold(const InferResponse& answer, const std::string& version,
                             std::span<const std::string> outputs,
                             std::span<const std::string> classified) {
  const auto known = Known(answer.model, version);
  if (!known) {
    return Fail(ErrorCode::kUnavailable,
                fmt::format("it has not told yet what model {} is", Quoted(answer.model)));
  }
  const std::shared_ptr<const Learned>& learned = *known;
  const std::vector<std::string>& told = subjects_.at(answer.model).versions;
  const std::vector<std::string>& also = learned->metadata.versions;
  const bool tells = version.empty() && !(told.empty() && also.empty());
  Status checked;
  if (tells &&
      std::ranges::count(told, answer.version) + std::ranges::count(also, answer.version) == 0) {
    checked = Fail(ErrorCode::kUnavailable,
                   fmt::format("the answer is of version {} of model {}, which the member has not "
                               "told of",
                               Quoted(answer.version), Quoted(answer.model)));
  } else {
    checked = CheckOutputs(answer, learned->metadata, outputs, classified);
  }
  if (checked) return {};
  // The member may have loaded the model anew.
  const bool confirmed = QuestionOf(answer.model, version)->confirmed;
  for (auto& [key, question] : subjects_.at(answer.model).questions) {
    question.doubted = true;
    if (question.open) continue;
    question.open = true;
    question.ask_at = {};
  }
  LearnNext();
  if (confirmed || checked.error().code == ErrorCode::kUnavailable) return checked;
  return Fail(ErrorCode::kUnavailable,
              fmt::format("{}; the member is asked whether it has loaded the model anew",
                          checked.error().message));
}

Result<ModelMetadata> RemoteCore::Metadata(const std::string& model,
                                           const std::string& version) const {
  MutexLock lock(mutex_);
  LAGOON_RETURN_IF_ERROR(Admit());
  LAGOON_ASSIGN_OR_RETURN(const std::shared_ptr<const Learned> learned, Known(model, version));
  return learned->metadata;
}

Result<inference::ModelConfig> RemoteCore::Config(const std::string& model,
                                                  const std::string& version) const {
  MutexLock lock(mutex_);
  LAGOON_RETURN_IF_ERROR(Admit());
  LAGOON_ASSIGN_OR_RETURN(const std::shared_ptr<const Learned> learned, Known(model, version));
  return learned->config;
}

}  // namespace lagoon
