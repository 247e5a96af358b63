#include "protocols.hpp"

#include "codec/codec.hpp"

#include <span>

namespace sennit {
namespace {

Status check_lender(const FlatStrand& program, const FlatStrand::Message& message) {
  const Step& sender = *program.steps()[static_cast<std::size_t>(message.sender)].step;
  if (sender.kind == StepKind::kToken) {
    return {};
  }
  if (program.source_blocks(message).empty()) {
    return fail(Code::kNotProved,
                "protocol: {} passes a message on to channel {} (direct_get) without storing it, "
                "so there is nothing to take it from",
                program.describe(message.sender),
                message.channel);
  }
  if (sender.kind == StepKind::kSend && (sender.pre || sender.post)) {
    return fail(Code::kNotProved,
                "protocol: {} cannot scale what channel {} (direct_get) takes from its own blocks",
                program.describe(message.sender),
                message.channel);
  }
  return {};
}

Status check_recipient(const FlatStrand& program,
                       const FlatStrand::Message& message,
                       int recipient) {
  const Step& step = *program.steps()[static_cast<std::size_t>(recipient)].step;
  if (step.kind == StepKind::kToken || program.is_put(message, recipient)) {
    return {};
  }
  return fail(Code::kNotProved,
              "protocol: {} has no block of its own into which channel {} (direct_put) could put "
              "the message",
              program.describe(recipient),
              message.channel);
}

// A reader that chooses may hold an answer back until the copies that it let go have completed. So
// such a copy must not wait for another reader's answer, which may wait in turn: neither side of
// its step, the sender's others or what its taker passes on.
Status check_asks(const FlatStrand& program) {
  for (std::size_t s = 0; s < program.steps().size(); ++s) {
    const auto answers = [&](std::span<const int> messages, bool each_recipient) {
      int count = 0;
      for (const int number : messages) {
        const FlatStrand::Message& message = program.messages()[static_cast<std::size_t>(number)];
        if (program.binding(message).chooser == Chooser::kReader) {
          count += each_recipient ? message.recipients : 1;
        }
      }
      return count;
    };
    const int asked = answers(program.sent_by(static_cast<int>(s)), true);
    const int given = asked > 0 ? answers(program.taken_by(static_cast<int>(s)), false) : 0;
    if (asked + given > 1) {
      return fail(Code::kNotProved,
                  "protocol: {} depends on the answers of {} readers that choose at once",
                  program.describe(static_cast<int>(s)),
                  asked + given);
    }
  }
  return {};
}

// A put changes the recipient's block before its step, a slot does not; nobody has proved yet that
// a schedule cannot distinguish the two.
Status check_puts_alone(const ChannelBinding& binding, const FlatStrand::Message& message) {
  return always_uses(binding, Protocol::kDirectPut)
             ? Status()
             : fail(Code::kNotProved,
                    "protocol: the bundle of channel {} mixes direct_put with another protocol",
                    message.channel);
}

// A codec's bytes lie in slots; who reaches into the users' buffers finds plain values there.
Status check_coded(const ChannelBinding& binding, const FlatStrand::Message& message) {
  const bool direct =
      may_use(binding, Protocol::kDirectGet) || may_use(binding, Protocol::kDirectPut);
  return !binding.codec || !direct
             ? Status()
             : fail(Code::kNotProved,
                    "protocol: channel {} has codec {}, but {} moves plain values between buffers",
                    message.channel,
                    name(*binding.codec),
                    name(binding.protocol));
}

}  // namespace

Status check_protocols(const FlatStrand& program) {
  SENNIT_RETURN_IF_ERROR(check_asks(program));
  for (const FlatStrand::Message& message : program.messages()) {
    const ChannelBinding& binding = program.binding(message);
    SENNIT_RETURN_IF_ERROR(check_coded(binding, message));
    if (may_use(binding, Protocol::kDirectGet)) {
      SENNIT_RETURN_IF_ERROR(check_lender(program, message));
    }
    if (may_use(binding, Protocol::kDirectPut)) {
      SENNIT_RETURN_IF_ERROR(check_puts_alone(binding, message));
      for (const int recipient : program.recipients(message)) {
        SENNIT_RETURN_IF_ERROR(check_recipient(program, message, recipient));
      }
    }
  }
  return {};
}

}  // namespace sennit
