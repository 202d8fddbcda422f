int cmd_inspect(int, char**); int cmd_inspect(int c, char**v){return 0;}
