# Rule packs between the names of projects: each file of data/ goes into zoo_keys as text. Included by its folder, since a
# made source belongs to the folder of its target.
set(packs
    bert-encoder
    gpt2-nanogpt
    hf-beit-5
    hf-deit-5
    hf-dinov2-5
    hf-resnet
    hf-vit
    hf-vit-5
    keras-convnext-base
    keras-convnext-tiny
    keras-densenet121
    keras-densenet169
    keras-densenet201
    keras-efficientnet-b0
    keras-efficientnet-b1
    keras-efficientnet-b2
    keras-efficientnet-b3
    keras-efficientnet-b4
    keras-efficientnet-b5
    keras-efficientnet-b6
    keras-efficientnet-b7
    keras-efficientnet-v2-l
    keras-efficientnet-v2-m
    keras-efficientnet-v2-s
    keras-inception-v3
    keras-mobilenet-v2
    keras-mobilenet-v3-large
    keras-mobilenet-v3-small
    keras-resnet101
    keras-resnet152
    keras-resnet50
    keras-vgg16
    keras-vgg19
    old-alexnet
    old-bert
    old-densenet
    old-vit
    timm-convnext
    timm-efficientnet
    timm-hf-vit
    timm-mobilenet-v2
    timm-mobilenet-v3-large
    timm-mobilenet-v3-small
    timm-regnet
    timm-resnet
    timm-swin
    timm-vit)
list(TRANSFORM packs PREPEND ${CMAKE_CURRENT_LIST_DIR}/data/ OUTPUT_VARIABLE files)
list(TRANSFORM files APPEND .toml)
set(embedded ${CMAKE_CURRENT_BINARY_DIR}/pack_texts.cpp)
add_custom_command(
  OUTPUT ${embedded}
  COMMAND ${CMAKE_COMMAND} "-DFILES=${files}" -DOUTPUT=${embedded} -P ${CMAKE_CURRENT_LIST_DIR}/embed.cmake
  DEPENDS ${files} ${CMAKE_CURRENT_LIST_DIR}/embed.cmake
  VERBATIM
  COMMENT "Embedding rule packs")
target_sources(zoo_keys PRIVATE ${CMAKE_CURRENT_LIST_DIR}/rule_packs.cpp)
target_sources(zoo_texts PRIVATE ${embedded})
