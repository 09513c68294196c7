export { type Bridge, type BridgeOptions, openBridge } from './bridge.ts'
export type { BridgeHome, BridgeQuestion, BridgeSchedule, NewSchedule } from './bridge-home.ts'
export { servicesHome } from './services-home.ts'
export type { UseSandbox } from './tools.ts'
