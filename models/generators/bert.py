"""BERT (Devlin et al. 2019) and DistilBERT (Sanh et al. 2019) of `transformers`, classifiers."""

import numpy as np
from transformers import (BertConfig, BertForSequenceClassification, DistilBertConfig,
                          DistilBertForSequenceClassification)

from generators.calibration import randomise_affine
from generators.network import Network
from generators.text import make_tokens

LENGTH = 128
CLASSES = 20
# Twice the usual: attention that is not trained would be all but uniform.
SPREAD = 0.04


def make_texts(count, seed, vocabulary):
    """Texts of 32 to LENGTH tokens, behind which the mask is 0."""
    lengths = np.random.default_rng(seed).integers(32, LENGTH + 1, (count, 1))
    mask = (np.arange(LENGTH) < lengths).astype(np.int64)
    tokens = make_tokens(count, LENGTH, vocabulary, seed)
    return {"input_ids": tokens * mask, "attention_mask": mask}


def build_bert(**sizes):
    config = BertConfig(num_labels=CLASSES, initializer_range=SPREAD, return_dict=False, **sizes)
    def sample(count, seed):
        inputs = make_texts(count, seed, config.vocab_size)
        second = np.arange(LENGTH) >= LENGTH // 4  # two texts in one
        return {**inputs, "token_type_ids": second * inputs["attention_mask"]}
    module = BertForSequenceClassification(config)
    return module, sample, module.classifier


def build_distilbert():
    config = DistilBertConfig(num_labels=CLASSES, initializer_range=SPREAD, return_dict=False)
    module = DistilBertForSequenceClassification(config)
    return module, lambda count, seed: make_texts(count, seed, config.vocab_size), module.classifier


def build(name, seed):
    module, sample, classifier = {
        "bert_base": build_bert,
        "bert_tiny": lambda: build_bert(vocab_size=8192, hidden_size=256, num_hidden_layers=2,
                                        num_attention_heads=4, intermediate_size=1024),
        "distilbert": build_distilbert,
    }[name]()
    module.eval()
    randomise_affine(module, seed)
    return Network(module, sample, outputs=("logits",), calibrated=[classifier])
