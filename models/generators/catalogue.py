"""The models of the zoo: for each a description, the family that builds it, and the seed. The first axis of all inputs
and outputs is named "batch"."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Entry:
    family: str  # the file beside this one that builds it
    seed: int
    calibration: int  # number of inputs that set the statistics
    megabytes: int  # size of the ONNX file
    description: str
    set: str = "zoo"  # in whose geometric mean it counts (bench/live/models.h)


CATALOGUE = {
    "alexnet": Entry("torchvision_cnns", 1, 16, 244, "AlexNet, images"),
    "vgg16": Entry("torchvision_cnns", 16, 16, 553, "VGG-16, images"),
    "vgg19": Entry("torchvision_cnns", 19, 16, 575, "VGG-19, images"),
    "resnet18": Entry("torchvision_cnns", 18, 32, 47, "ResNet-18, images; real-time"),
    "resnet34": Entry("torchvision_cnns", 34, 32, 87, "ResNet-34, images"),
    "resnet50": Entry("torchvision_cnns", 50, 24, 102, "ResNet-50, images"),
    "resnet152": Entry("torchvision_cnns", 152, 16, 242, "ResNet-152, images"),
    "resnext50_32x4d": Entry("torchvision_cnns", 5032, 24, 100,
                             "ResNeXt-50, images; convolutions of 32 groups"),
    "squeezenet1_1": Entry("torchvision_cnns", 11, 32, 5, "SqueezeNet 1.1, images"),
    "mobilenet_v1": Entry("mobilenet_v1", 1, 32, 17, "MobileNet V1, images"),
    "mobilenet_v2": Entry("torchvision_cnns", 2, 32, 14, "MobileNet V2, images"),
    "mnasnet1_0": Entry("torchvision_cnns", 10, 32, 18, "MnasNet, images"),
    "efficientnet_b0": Entry("torchvision_cnns", 100, 32, 21,
                             "EfficientNet-B0, images; squeeze-excite"),
    "shufflenet_v2_x1_0": Entry("torchvision_cnns", 210, 32, 9, "ShuffleNet V2, images"),
    "densenet121": Entry("torchvision_cnns", 121, 16, 32, "DenseNet-121, images"),
    "densenet201": Entry("torchvision_cnns", 201, 16, 81, "DenseNet-201, images"),
    "googlenet": Entry("torchvision_cnns", 22, 32, 27, "GoogLeNet, images"),
    "inception_v3": Entry("torchvision_cnns", 3, 16, 96, "Inception V3, images of 299 x 299"),
    "yolov2": Entry("yolo", 902, 16, 204, "YOLOv2, objects in images of 416 x 416, raw map"),
    "yolov3": Entry("yolo", 903, 16, 248, "YOLOv3, objects in images of 416 x 416, boxes"),
    "bert_base": Entry("bert", 110, 8, 438, "BERT-base, classes of texts of 128 tokens"),
    "distilbert": Entry("bert", 66, 8, 268, "DistilBERT, classes of texts of 128 tokens"),
    "gpt2_prefill": Entry("gpt2", 124, 0, 653, "GPT-2, a prompt of 128 tokens"),
    "gpt2_decode": Entry("gpt2", 124, 0, 652, "GPT-2, one token behind a cache of 128"),
    "llama_2layer": Entry("llama", 7, 0, 353, "Two layers of a Llama-style decoder, 128 tokens"),
    "gnmt": Entry("gnmt", 2016, 0, 291, "LSTM translator after GNMT, 32 words to 16"),
    "jasper": Entry("jasper", 53, 16, 431, "Jasper 5x3, 2.6 s of speech; 1-D convolutions"),
    "vit_b_16": Entry("vit", 86, 16, 346, "ViT-B/16, images"),
    "bert_tiny": Entry("bert", 4, 32, 16, "Two layers like BERT's, for tests"),
    "gnmt_tiny": Entry("gnmt", 17, 0, 12, "gnmt at a quarter of its width, for tests"),
}
# Models that nobody tuned, for a comparison with other engines.
TEN = {
    "resnet101": Entry("torchvision_cnns", 101, 16, 178, "ResNet-101, images", "ten"),
    "wide_resnet50_2": Entry("torchvision_cnns", 502, 16, 276, "Wide ResNet-50, images", "ten"),
    "densenet169": Entry("torchvision_cnns", 169, 16, 57, "DenseNet-169, images", "ten"),
    "mnasnet0_5": Entry("torchvision_cnns", 5, 32, 9, "MnasNet of half the width, images", "ten"),
    "shufflenet_v2_x1_5": Entry("torchvision_cnns", 215, 32, 14, "ShuffleNet V2, wider, images", "ten"),
    "regnet_x_800mf": Entry("torchvision_cnns", 800, 32, 29, "RegNetX, images", "ten"),
    "mobilenet_v3_large": Entry("torchvision_cnns", 33, 32, 22, "MobileNet V3, images", "ten"),
    "efficientnet_b2": Entry("torchvision_cnns", 102, 32, 37, "EfficientNet-B2, images", "ten"),
    "squeezenet1_0": Entry("torchvision_cnns", 12, 32, 5, "SqueezeNet 1.0, images", "ten"),
    "vgg11_bn": Entry("torchvision_cnns", 111, 16, 531, "VGG-11 with batch-norms, images", "ten"),
}
CATALOGUE |= TEN
# The models that are made by default: those of the published measurements.
DEFAULT = ("resnet18", "resnet50", "mobilenet_v2", "squeezenet1_1", "vgg19")
# The models that the tests need.
SMALL = ("resnet18", "mobilenet_v2", "squeezenet1_1", "bert_tiny", "gnmt_tiny")
REALTIME = {"resnet18"}  # their priority is PRIORITY_MAX
