/** Words for readable names. Short, friendly, and hard to confuse when they are read aloud. */
export const adjectives: readonly string[] = words(`
  able agile amber ample azure blithe bold brave breezy bright brisk calm candid cheery civil clever cosmic
  cosy crisp curious daring deft eager earnest easy fair fleet fond fresh gentle glad golden grand happy
  hardy honest humble jolly keen kind lively loyal lucky mellow merry mighty misty modest neat nimble noble
  patient plucky polite proud quick quiet rapid sunny swift tidy vivid warm wise witty zesty
`)

export const animals: readonly string[] = words(`
  alpaca badger beaver bison bobcat camel caribou cheetah condor cougar coyote crane dingo dolphin dove
  eagle egret falcon ferret finch fox gazelle gecko gibbon giraffe heron hippo ibex ibis jackal jaguar
  kestrel kiwi koala lemur leopard lion llama lynx magpie marmot marten meerkat mole moose newt ocelot okapi
  osprey otter owl panda penguin puffin puma quail rabbit raven robin seal sparrow stork swan tapir tiger
  toucan turtle walrus wombat yak zebra
`)

function words(text: string): string[] {
  return text.trim().split(/\s+/)
}
