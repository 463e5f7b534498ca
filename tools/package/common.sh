# The functions of gpu-check and gpu-bench, which source this file from the folder of the package.

gpu=0 out='' models=() steps=() failed=0
budget=470  # seconds for all steps together

# Steps are lines "STATUS<tab>NAME<tab>SECONDS<tab>WORDS" in `steps`; STATUS: ok, FAILED or skipped.
add_step() { steps+=("$1"$'\t'"$2"$'\t'"$3"$'\t'"$4"); printf '%-8s %-28s %4s s  %s\n' "$1" "$2" "$3" "$4"; }

# step NAME LIMIT COMMAND...: runs the command for at most LIMIT seconds, and at most for the rest of `budget`. The
# command's output goes to $out/NAME.log; its last line is shown.
step() {
  local name=$1 limit=$2 begin=$SECONDS status=0 words left=$((budget - SECONDS)) cut=0
  shift 2
  if [ $left -lt $((limit / 2)) ]; then
    add_step skipped "$name" 0 "of the $budget s for all steps $left are left (--seconds)"
    return 1
  fi
  [ $left -ge "$limit" ] || { limit=$left; cut=1; }
  timeout -k 10 "$limit" "$@" >"$out/$name.log" 2>&1 </dev/null || status=$?
  words=$(grep -v '^[[:space:]]*$' "$out/$name.log" | tail -1 | cut -c1-160)
  case $status in
    0) add_step ok "$name" $((SECONDS - begin)) "$words" ;;
    124|137)
      if [ $cut -eq 1 ]; then
        add_step skipped "$name" $((SECONDS - begin)) "the $budget s for all steps were over (--seconds)"
      else
        add_step FAILED "$name" $((SECONDS - begin)) "took longer than $limit s; $words"
        failed=1
      fi ;;
    *) add_step FAILED "$name" $((SECONDS - begin)) "exit $status: $words"; failed=1 ;;
  esac
  return "$status"
}

json_text() { printf '%s' "$1" | sed 's/\\/\\\\/g; s/"/\\"/g' | tr -d '\000-\037'; }

# write_steps FILE: the steps as JSON.
write_steps() {
  local line status name seconds words comma=''
  {
    printf '{"gpu": "%s", "lagoon": "%s", "date": "%s", "steps": [' "$(json_text "$gpu_words")" \
      "$(json_text "$("$here/bin/lagoon" version)")" "$(date -u +%FT%TZ)"
    for line in "${steps[@]}"; do
      IFS=$'\t' read -r status name seconds words <<<"$line"
      printf '%s\n  {"status": "%s", "name": "%s", "seconds": %s, "words": "%s"}' \
        "$comma" "$status" "$(json_text "$name")" "$seconds" "$(json_text "$words")"
      comma=,
    done
    printf '\n]}\n'
  } >"$1"
}

# NVRTC comes with a CUDA toolkit and with PyTorch, in folders that the dynamic linker may not search. Adds the first
# such folder to LD_LIBRARY_PATH.
add_nvrtc() {
  local folder
  for folder in /usr/local/cuda/lib64 /usr/local/cuda/targets/x86_64-linux/lib \
    $(python3 -c 'import site; print("\n".join(site.getsitepackages()))' 2>/dev/null | sed 's|$|/nvidia/cu13/lib|;p;s|cu13/lib$|cuda_nvrtc/lib|'); do
    if compgen -G "$folder/libnvrtc.so.1[23]" >/dev/null; then
      export LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
      return
    fi
  done
}

# Reads the options, finds the GPU, and makes the weights of models that have none yet.
begin() {
  while [ $# -gt 0 ]; do
    case $1 in
      --gpu) gpu=${2:?--gpu needs a number}; shift 2 ;;
      --out) out=${2:?--out needs a folder}; shift 2 ;;
      --seconds) budget=${2:?--seconds needs a number}; shift 2 ;;
      -h|--help) usage; exit 0 ;;
      -*) usage >&2; echo "there is no option '$1'" >&2; exit 2 ;;
      *) models+=("$1"); shift ;;
    esac
  done
  case $budget in ''|*[!0-9]*) echo "--seconds $budget: how long all steps may take, in seconds" >&2; exit 2 ;; esac
  case $gpu in ''|*[!0-9]*) echo "--gpu $gpu: the number of a GPU, as in \`bin/lagoon devices\`" >&2; exit 2 ;; esac
  : "${out:=$here/results}"
  mkdir -p "$out" || exit 2
  add_nvrtc
  gpu_words=$("$here/bin/lagoon" devices | grep "^cuda:$gpu"$'\t')
  if [ -z "$gpu_words" ]; then
    echo "there is no cuda:$gpu; \`bin/lagoon devices\` says:" >&2
    "$here/bin/lagoon" devices >&2
    exit 2
  fi
  echo "$gpu_words"
  local model
  if [ ${#models[@]} -eq 0 ]; then
    for model in "$here"/models/*/1/model.onnx; do models+=("$(basename "${model%/1/model.onnx}")"); done
  fi
  for model in "${models[@]}"; do
    [ -f "$here/models/$model/1/model.onnx" ] || { echo "there is no model '$model' in $here/models" >&2; exit 2; }
  done
  "$here/bin/lagoon" make-weights "$here/models" || exit 2
}

# finish NAME: writes the steps to $out/NAME.json, prints how many were ok, failed or skipped, and exits with the
# status.
finish() {
  write_steps "$out/$1.json"
  echo
  printf '%s\n' "${steps[@]}" | awk -F'\t' '{ count[$1]++ } END { printf "%d ok, %d failed, %d skipped", count["ok"], count["FAILED"], count["skipped"] }'
  echo " in $SECONDS s; $out/$1.json"
  exit "$failed"
}
