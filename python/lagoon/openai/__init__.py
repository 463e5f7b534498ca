"""OpenAI's API in front of a Lagoon server: chat completions and completions over language models whose program is
examples/jobs/chat.cc. Texts become tokens here; the server computes on tokens only."""
